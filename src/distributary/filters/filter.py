"""What every filter kind knows: parse, match, cover, merge, and its canonical text.

Trees, routing tables and aggregation need nothing else of a filter. An application adds a kind of its own
by deriving from `Filter` and calling `register`: its key is then accepted in subscriptions, and `Matcher`
evaluates it for every event that passes a subscription's other filters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from distributary.model import Event

EVERY_EVENT = "every event"
"""What a filter asks for that says nothing: without it the same events would pass."""


class Filter(ABC):
    """One filter of a subscription. Immutable, hashable, and equal when the canonical texts are equal."""

    kind: ClassVar[str]
    """The key under which subscriptions give this filter."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def parse(cls, given: Any) -> Self:
        """Read what a subscription gives, or the canonical text; raise `FilterError` with the position."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The canonical text: `parse(f.text) == f`."""

    @abstractmethod
    def matches(self, event: Event) -> bool:
        """Whether the event passes. Absent or unknown information does not pass."""

    @abstractmethod
    def covers(self, other: Self) -> bool:
        """True only when it is certain that every event `other` lets pass, this filter lets pass too."""

    @abstractmethod
    def merge(self, other: Self) -> Self | None:
        """A filter that lets pass at least what either does; None when only no filter at all would do."""

    def widened(self) -> Self | None:
        """A filter that lets pass at least as much and says it in few words; None when no filter would do.

        For summaries of very many filters, which are compared with each that comes; this one, by default.
        """
        return self

    @property
    def selectivity(self) -> float:
        """The share of events it is guessed to let pass, from its form alone; for speed only."""
        return 1.0

    @property
    def asks_for_all(self) -> str | None:
        """What it plainly asks for without exception, such as `every document` or `EVERY_EVENT`, or None."""
        return None

    @property
    def slow(self) -> str | None:
        """Why this filter must be evaluated event by event, or None when the indexes can serve it."""
        return None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.text == self.text

    def __hash__(self) -> int:
        return hash((self.kind, self.text))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"
