"""TOML files: read, validated by pydantic, and refused with everything that is wrong with them at once.

A file is described by its tables: classes with the decorator `toml_table`, whose fields are the keys. The
type of a key says what it may hold, and the type's `description` completes the sentence "it must be ..." (KEY
stands for the key's name). `validated` makes the objects, or raises one error with a line for each fault:
table and key, what was given, what would be right, and for an unknown key the known name nearest to it.

>>> @toml_table
... class Sink:
...     path: Text
...     format: Text = "parquet"
>>> validated(Sink, {"path": "out"}, "sink.toml")
Sink(path='out', format='parquet')
>>> validated(Sink, {"format": 5, "pat": "out"}, "sink.toml")
Traceback (most recent call last):
    ...
distributary.errors.DistributaryError: sink.toml: 3 things are wrong:
  pat: there is no such key; did you mean path?
  path: is missing; it must be a string such as "path"
  format: is 5 (a whole number); it must be a string such as "format"

Rules:

- Keys that are right each by itself but not together are found by validators of the file's model, which
  `report` them and go on, so that such a fault hides no other.
- After the first validation, unknown keys and keys of a wrong type are taken out and the rest is validated
  again, so that those validators see the rest. A key that was told of before is not told of again.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from difflib import get_close_matches
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo
from pydantic.dataclasses import dataclass, is_pydantic_dataclass
from pydantic.fields import FieldInfo

from distributary.errors import DistributaryError

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def toml_table(kind: type[T]) -> type[T]:
    """Make a class a table of a TOML file: a frozen pydantic dataclass that takes no undeclared key."""
    return cast(type[T], dataclass(kind, frozen=True, config=ConfigDict(extra="forbid")))


class FaultyValueError(ValueError):
    """What a validator found in a key's value: for each fault the part of the value, or "", and a text."""

    def __init__(self, faults: Iterable[tuple[str, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{part}: {text}" for part, text in self.faults))


def report(info: ValidationInfo, faults: Iterable[tuple[str, str]]) -> None:
    """Tell `validated` of faults in the table that a validator of the file was given: keys and texts."""
    context: Any = info.context
    table = (str(info.field_name),)
    context["reported"] += [_Fault(_Place(table, key), text) for key, text in faults]


def _no_truth_value(given: Any) -> Any:
    if isinstance(given, bool):
        raise ValueError("a truth value is no number")
    return given


Text = Annotated[str, Field(pattern=r"\S", description='a string such as "KEY"')]
"""A string that is not blank."""

Truth = Annotated[bool, Field(strict=True, description="true or false")]

Number = Annotated[
    float,
    BeforeValidator(_no_truth_value),
    Field(ge=0, allow_inf_nan=False, description="a number that is not negative"),
]
"""A finite number that is not negative; a string that says one is taken too, as CSV has nothing else."""

Names = Annotated[tuple[Text, ...], Field(description='a list of strings such as ["KEY"]')]

Positive = Annotated[Number, Field(gt=0, description="a number above 0")]
"""A finite number above 0."""


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file, not validated."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DistributaryError(f"cannot read {path}: {reason}") from None
    return parse_toml(text, str(path))


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The content of a TOML text, not validated; `name` is what an error begins with."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DistributaryError(f"{name}: not TOML: {error}") from None


def validated(table: type[T], given: Mapping[str, Any], name: str, **context: Any) -> T:
    """The table made of what was given, or an error with everything that is wrong with it.

    `name` is what the error begins with: the file. Validators find `context` in their `info.context`.
    """
    wrong: dict[_Place, list[str]] = {}
    rest = given
    for _ in range(2):
        found: list[_Fault] = []
        try:
            made = TypeAdapter(table).validate_python(rest, context={**context, "reported": found})
        except ValidationError as error:
            found += _faults_in(table, rest, error)
        if not found:
            break
        told = {place.of_key for place in wrong}
        for place, text, _ in found:
            if place.of_key not in told:
                wrong.setdefault(place, []).append(text)
        rest = _without(rest, [fault.place.of_key for fault in found if fault.alone])
    if not wrong:
        return made
    order = list(_fields(table))
    places = sorted(wrong, key=lambda place: order.index(place.top) if place.top in order else -1)
    lines = [f"{place}: {text}" for place in places for text in dict.fromkeys(wrong[place])]
    count = "1 thing is" if len(lines) == 1 else f"{len(lines)} things are"
    raise DistributaryError("\n  ".join([f"{name}: {count} wrong:", *lines]))


def suggestion(name: str, known: Sequence[str]) -> str:
    """The known name that was probably meant, or all of them.

    >>> suggestion("fromat", ["format", "path"])
    'did you mean format?'
    """
    near = get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def shown(value: object) -> str:
    """A value from the file with the name of its type, shortened when it is long.

    >>> shown([1, 2])
    '[1, 2] (a list)'
    """
    kinds = {bool: "a truth value", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
    text = json.dumps(value, default=str)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} ({kinds[type(value)]})" if type(value) in kinds else text


class _Place(NamedTuple):
    """Where a fault is: the names (or numbers) of the tables around it, and the key, empty for a table."""

    tables: tuple[str | int, ...]
    key: str

    def __str__(self) -> str:
        names = "".join(f" {each + 1}" if isinstance(each, int) else f".{each}" for each in self.tables)
        return " ".join(part for part in (f"[{names[1:]}]" if names else "", self.key) if part)

    @property
    def top(self) -> str:
        """The key of the file that it is below."""
        return str(self.tables[0]) if self.tables else self.key

    @property
    def of_key(self) -> tuple[tuple[str | int, ...], str]:
        """The tables and the key without what stands behind a dot: a setting in the key's value."""
        return self.tables, self.key.partition(".")[0]


class _Fault(NamedTuple):
    place: _Place
    text: str
    alone: bool = False
    """Whether it is of the one value at the place, whatever the rest of the file holds."""


def _faults_in(table: type, given: Mapping[str, Any], error: ValidationError) -> Iterator[_Fault]:
    """The faults that pydantic found in our words, one for each key that has a wrong value."""
    seen: set[_Place] = set()
    for each in error.errors(include_url=False):
        place, right, known = _located(table, each["loc"])
        cause = each.get("ctx", {}).get("error")
        if isinstance(cause, FaultyValueError):
            for part, text in cause.faults:
                yield _Fault(_Place(place.tables, f"{place.key}.{part}".rstrip(".")), text, True)
        elif place not in seen:
            seen.add(place)
            if each["type"] == "unexpected_keyword_argument":
                yield _Fault(place, f"there is no such key; {suggestion(place.key, known)}", True)
            elif each["type"] == "missing":
                text = f"is missing; it must be {right}" if place.key else "the table is missing"
                yield _Fault(place, text)
            else:
                value = _inside(given, (*place.tables, place.key) if place.key else place.tables)
                yield _Fault(place, f"is {shown(value)}; it must be {right}", True)


def _located(table: type, location: Sequence[str | int]) -> tuple[_Place, str, list[str]]:
    """A place in pydantic's words in ours, what would be right there, and the known keys around it.

    Places inside a key's value are taken for the key's own.
    """
    inner: Any = table
    steps: tuple[str | int, ...] = ()
    known: dict[str, Any] = {}
    right = ""
    for part in location:
        if inner is None:
            break
        known = _fields(inner) if isinstance(inner, type) else {}
        field = known.get(str(part))
        annotation = field.annotation if field else next(iter(get_args(inner)[-1:]), None)
        right = (field and field.description) or _description(annotation)
        inner = _inner(annotation)
        steps = (*steps, part)
    if inner is not None and get_origin(inner) is not list:
        return _Place(steps, ""), "a table", []
    return _Place(steps[:-1], str(steps[-1])), right.replace("KEY", str(steps[-1])), list(known)


def _fields(table: Any) -> dict[str, Any]:
    """Pydantic's descriptions of the keys of a table."""
    return dict(table.__pydantic_fields__)


def _inner(annotation: Any) -> Any:
    """What an annotation has that holds keys: a table, a dictionary or a list of tables; None if nothing."""
    if is_pydantic_dataclass(annotation):
        return annotation
    inside = next(filter(None, map(_inner, get_args(annotation))), None)
    holds_keys = get_origin(annotation) is dict or (inside and get_origin(annotation) is list)
    return annotation if holds_keys else inside


def _description(annotation: Any) -> str:
    """The description of the first type in an annotation that has one, or the values of a `Literal`."""
    if get_origin(annotation) is Literal:
        return " or ".join(f'"{each}"' for each in get_args(annotation))
    metadata = getattr(annotation, "__metadata__", ())[::-1]
    own = (each.description for each in metadata if isinstance(each, FieldInfo))
    return next(filter(None, (*own, *map(_description, get_args(annotation)))), "")


def _without(
    given: Mapping[str, Any], places: Iterable[tuple[tuple[str | int, ...], str]]
) -> Mapping[str, Any]:
    """What was given but for the values at these places; an entry of a list stays, as others count on it."""
    rest = copy.deepcopy(given)
    for tables, key in places:
        around, last = (tables, key) if key else (tables[:-1], tables[-1])
        with suppress(TypeError):  # an entry of a list
            _inside(rest, around).pop(last, None)
    return rest


def _inside(given: Any, keys: Iterable[str | int]) -> Any:
    """The value that these keys lead to."""
    for key in keys:
        given = given[key]
    return given
