"""Options of a format: a table says what there is, and what is given is held against it.

Spark gives the options of a reader or a writer as texts, with their names in small letters, and passes over
those that nobody asks for. So an option that is misspelt would say nothing: here it is an error, with the
nearest name that there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from distributary.errors import SettingError

Kind = Literal["text", "whole", "truth", "seconds"]
MUST_BE = {
    "text": "a text that is not empty",
    "whole": "a whole number above 0",
    "truth": "true or false",
    "seconds": "a number of seconds, 0 or more",
}
Value = str | int | float | bool | None
SPARKS_OWN = ("checkpointlocation",)
"""What Spark gives to a writer beside its options."""


@dataclass(frozen=True)
class Option:
    """One option of a format."""

    name: str
    kind: Kind = "text"
    default: Value = None
    choices: tuple[str, ...] = ()
    needed: str = ""
    """An example, if the option must be given."""


def checked_options(format: str, given: Mapping[str, str], known: tuple[Option, ...]) -> dict[str, Value]:
    """The values of all options that there are, by their names; `SettingError` for the first that is wrong.

    >>> port = Option("port", "whole", 1883)
    >>> checked_options("mqtt", {"PORT": "1884"}, (port,)), checked_options("mqtt", {}, (port,))
    ({'port': 1884}, {'port': 1883})
    >>> checked_options("mqtt", {"prot": "1884"}, (port,))
    Traceback (most recent call last):
    distributary.errors.SettingError: "prot" is no option of the format "mqtt"; did you mean "port"?
    """
    names = {option.name.lower(): option for option in known}
    values: dict[str, Value] = {option.name: option.default for option in known}
    for name, text in given.items():
        if name.lower() in SPARKS_OWN:
            continue
        option = names.get(name.lower())
        if option is None:
            raise SettingError(f'"{name}" is no option of the format "{format}"; {_hint(name, known)}')
        values[option.name] = _value(format, option, text)
    for option in known:
        if option.needed and values[option.name] is None:
            example = f'.option("{option.name}", "{option.needed}")'
            raise SettingError(f'the format "{format}" needs the option "{option.name}", such as {example}')
    return values


def _hint(name: str, known: tuple[Option, ...]) -> str:
    by_small = {option.name.lower(): option.name for option in known}
    near = get_close_matches(name.lower(), by_small, n=1, cutoff=0.6)
    return f'did you mean "{by_small[near[0]]}"?' if near else f"there are {', '.join(by_small.values())}"


def _value(format: str, option: Option, text: str) -> Value:
    """The value that a text stands for."""
    bare = text.strip()
    if option.choices and bare not in option.choices:
        must = " or ".join(option.choices)
    elif option.kind == "whole" and bare.isdecimal() and int(bare) > 0:
        return int(bare)
    elif option.kind == "truth" and bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    elif option.kind == "seconds" and bare.replace(".", "", 1).isdecimal():
        return float(bare)
    elif option.kind == "text" and bare:
        return text
    else:
        must = MUST_BE[option.kind]
    raise SettingError(f'the option "{option.name}" of the format "{format}" is "{text}"; it must be {must}')
