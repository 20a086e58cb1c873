"""What is wrong with a query, said with its place: query, operator, field, and what would be right.

Checks go on after the first fault, so that a user sees all that can be seen at once; `CombinedError` carries
several of them to whoever knows the query's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from distributary.errors import DistributaryError, InputError

T = TypeVar("T")
V = TypeVar("V")


class QueryError(InputError):
    """A fault of a source or a query, with the names of both it and the operator.

    >>> print(QueryError("no attribute 'sise'; there are size, at", query="busy", field="where"))
    query 'busy', where: no attribute 'sise'; there are size, at
    """

    def __init__(
        self,
        reason: str,
        *,
        source: str | None = None,
        query: str | None = None,
        operator: str | None = None,
        **inside: Any,
    ) -> None:
        """`inside` is what an `InputError` takes: the field, its text and the position in it."""
        super().__init__(reason, **inside)
        self.source = source
        self.query = query
        self.operator = operator

    def __str__(self) -> str:
        places = [("source", self.source), ("query", self.query), ("operator", self.operator)]
        named = ", ".join(f"{what} {name!r}" for what, name in places if name is not None)
        rest = super().__str__()
        if not named:
            return rest
        return f"{named}, {rest}" if self.field else f"{named}: {rest}"


class CombinedError(DistributaryError):
    """Several faults found together."""

    def __init__(self, found: Sequence[InputError]) -> None:
        super().__init__("\n".join(map(str, found)))
        self.found = tuple(found)


def faults_of(error: DistributaryError) -> tuple[InputError, ...]:
    """The single faults that an error stands for."""
    if isinstance(error, CombinedError):
        return error.found
    return (error if isinstance(error, InputError) else InputError(str(error)),)


def located(fault: InputError, **place: str) -> QueryError:
    """The same fault, told with its place: source, query or operator, unless it says these itself."""
    if isinstance(fault, QueryError):
        own = {"source": fault.source, "query": fault.query, "operator": fault.operator}
        place |= {what: name for what, name in own.items() if name is not None}
    inside: dict[str, Any] = {"field": fault.field, "text": fault.text, "position": fault.position}
    return QueryError(fault.reason, **place, **inside)


class Checks:
    """Collects faults while a check goes on.

    >>> checks = Checks()
    >>> checks.attempt(int, "7"), checks.fault("is missing", field="window")
    (7, None)
    >>> checks.finish()
    Traceback (most recent call last):
    ...
    distributary.flow.language.problems.CombinedError: window: is missing
    """

    def __init__(self) -> None:
        self.found: list[InputError] = []

    @contextmanager
    def at(self, **place: str) -> Iterator[None]:
        """Go on after a fault in this block, which is kept with its place: source, query or operator."""
        try:
            yield
        except DistributaryError as error:
            self.found.extend(located(fault, **place) for fault in faults_of(error))

    def attempt(self, make: Callable[..., T], *arguments: object) -> T | None:
        """What the call gives; None when it found faults, which are kept."""
        try:
            return make(*arguments)
        except DistributaryError as error:
            self.found.extend(faults_of(error))
            return None

    def attempt_each(self, given: Mapping[str, V], field: str, make: Callable[[V, str], T]) -> dict[str, T]:
        """What the call gives for each value of a table, by its name; without those that failed."""
        made = {name: self.attempt(make, value, f"{field}.{name}") for name, value in given.items()}
        return {name: value for name, value in made.items() if value is not None}

    def fault(self, reason: str, field: str | None = None) -> None:
        """Keep a fault."""
        self.found.append(InputError(reason, field=field))

    def finish(self, **place: str) -> None:
        """Raise what was found, if anything was, with the place of all of it."""
        if self.found:
            raise CombinedError([located(fault, **place) for fault in self.found] if place else self.found)
