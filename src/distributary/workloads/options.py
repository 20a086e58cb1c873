"""The options of a workload: the keyword arguments of its two functions that are plain values, as texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

from distributary.errors import DistributaryError
from distributary.workloads import Workload

Option = bool | int | float
TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


def options(maker: Callable[..., Any]) -> dict[str, Option]:
    """The options of one function, with their defaults.

    >>> from distributary.workloads import topics
    >>> options(topics.events)
    {'levels': 7, 'values': 50}
    """
    defaults = ((each.name, each.default) for each in signature(maker).parameters.values())
    return {name: value for name, value in defaults if name != "count" and isinstance(value, Option)}


def chosen(workload: Workload, texts: Iterable[str]) -> tuple[dict[str, Option], dict[str, Option]]:
    """Parse texts such as `depth=4` into arguments for `subscriptions` and for `events`.

    DistributaryError for an unknown option or a value of the wrong type.

    >>> from distributary.workloads import workload
    >>> chosen(workload("documents"), ["depth=4", "size=2000"])
    ({'depth': 4}, {'size': 2000})
    """
    known = options(workload.subscriptions), options(workload.events)
    meant: tuple[dict[str, Option], dict[str, Option]] = ({}, {})
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not any(name in each for each in known):
            listed = ", ".join(f"{name}={default}" for name, default in {**known[0], **known[1]}.items())
            raise DistributaryError(f"no option {text!r}; this workload has {listed or 'none'}")
        for each, into in zip(known, meant, strict=True):
            if name in each:
                into[name] = _read(text, value, each[name])
    return meant


def require(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Refuse an option that is out of bounds.

    >>> require("levels", 0, 1)
    Traceback (most recent call last):
    ...
    distributary.errors.DistributaryError: levels cannot be 0: it is at least 1
    """
    if not least <= value <= most:
        bound = "" if most == math.inf else f" and at most {most}"
        raise DistributaryError(f"{name} cannot be {value}: it is at least {least}{bound}")


def _read(text: str, value: str, default: Option) -> Option:
    try:
        read: Option = TRUTHS[value.lower()] if isinstance(default, bool) else type(default)(value)
        if math.isfinite(read):
            return read
        raise ValueError(value)
    except (KeyError, ValueError):
        kind = {bool: "true or false", int: "a whole number", float: "a finite number"}[type(default)]
        raise DistributaryError(f"option {text!r} takes {kind}") from None
