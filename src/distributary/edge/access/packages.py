"""Packages that access needs and a plain installation does not have: one sentence says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from distributary.errors import DistributaryError


def require_package(name: str) -> Any:
    """A package of the extra `edge`.

    >>> require_package("absent")
    Traceback (most recent call last):
    ...
    distributary.errors.DistributaryError: this needs the package absent: pip install 'distributary[edge]'
    """
    try:
        return import_module(name)
    except ImportError:
        raise DistributaryError(f"this needs the package {name}: pip install 'distributary[edge]'") from None
