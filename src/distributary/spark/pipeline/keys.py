"""The keys of one TOML table: handed out with the right type, and noted with a reason when they are wrong.

A wrong key does not stop the reading, so that all that is wrong with a file can be told at once: it gathers
in a list that the tables of a file share, and a value of the right type takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any


class Table:
    """One table of the file: hands out its keys with the right type and notes what is wrong with them."""

    def __init__(self, wrong: list[str], name: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
        self.wrong = wrong
        self.name = name
        self.given = given
        for key in given:
            if key not in known:
                self.complain(key, f"there is no such key; {suggestion(key, known)}")

    def complain(self, key: str, what: str) -> None:
        self.wrong.append(f"[{self.name}] {key}: {what}" if self.name else f"{key}: {what}")

    def text(self, key: str, example: str, default: str | None = None) -> str:
        """A string that must be there, unless there is a default."""
        given = self.optional_text(key, example)
        if given is not None:
            return given
        if key not in self.given and default is None:
            self.complain(key, f'is missing; it must be a string such as "{example}"')
        return default or ""

    def optional_text(self, key: str, example: str) -> str | None:
        given = self.given.get(key)
        if given is None:
            return None
        if not isinstance(given, str):
            self.complain(key, f'is {shown(given)}; it must be a string such as "{example}"')
            return None
        if not given.strip():
            self.complain(key, f'is empty; it must be a string such as "{example}"')
            return None
        return given

    def choice(self, key: str, choices: Sequence[str], default: str | None) -> str | None:
        given: str | None = self.given.get(key, default)
        if given is not None and given not in choices:
            allowed = " or ".join(f'"{one}"' for one in choices)
            self.complain(key, f"is {shown(given)}; it must be {allowed}")
            return default
        return given

    def truth(self, key: str) -> bool:
        given = self.given.get(key, False)
        if not isinstance(given, bool):
            self.complain(key, f"is {shown(given)}; it must be true or false")
            return False
        return given

    def texts(self, key: str, example: str) -> tuple[str, ...]:
        given = self.given.get(key, [])
        if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
            self.complain(key, f"is {shown(given)}; it must be a list of strings such as {example}")
            return ()
        for one in sorted({one for one in given if given.count(one) > 1}):
            self.complain(key, f'names "{one}" twice')
        return tuple(given)

    def settings(self, key: str, example: str) -> dict[str, str]:
        """A table of settings for Spark: dotted names may be quoted or not, values become strings."""
        given = self.given.get(key, {})
        if not isinstance(given, dict):
            self.complain(key, f"is {shown(given)}; it must be a table such as {example}")
            return {}
        return self._flat(key, given, "")

    def _flat(self, key: str, given: Mapping[str, Any], prefix: str) -> dict[str, str]:
        flat: dict[str, str] = {}
        for name, value in given.items():
            if isinstance(value, dict):
                flat |= self._flat(key, value, f"{prefix}{name}.")
            elif isinstance(value, bool):
                flat[prefix + name] = str(value).lower()
            elif isinstance(value, str | int | float):
                flat[prefix + name] = str(value)
            else:
                self.complain(f"{key}.{prefix}{name}", f"is {shown(value)}; it must be a string or a number")
        return flat


def suggestion(name: str, known: Sequence[str]) -> str:
    """The known name that was probably meant, or all of them.

    >>> suggestion("fromat", ["format", "path"])
    'did you mean format?'
    """
    near = get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def shown(value: object) -> str:
    """A value from the file with the name of its type, shortened when it is long."""
    kinds = {bool: "a truth value", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
    text = json.dumps(value, default=str)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} ({kinds[type(value)]})" if type(value) in kinds else text
