"""What is wrong with a query, said with its place: query, operator, field, and what would be right.

Checks go on after the first fault, so that a user sees all that can be seen at once; `CombinedError` carries
several of them to whoever knows the query's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

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
        field: str | None = None,
        text: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(reason, field=field, text=text, position=position)
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


def located(fault: InputError, source: str | None, query: str | None, operator: str | None) -> QueryError:
    """The same fault, told with its place."""
    if isinstance(fault, QueryError):
        source = fault.source if fault.source is not None else source
        query = fault.query if fault.query is not None else query
        operator = fault.operator if fault.operator is not None else operator
    return QueryError(
        fault.reason,
        source=source,
        query=query,
        operator=operator,
        field=fault.field,
        text=fault.text,
        position=fault.position,
    )


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
        self.found.append(InputError(reason, field=field))

    def finish(self) -> None:
        """Raise what was found, if anything was."""
        if self.found:
            raise CombinedError(self.found)
