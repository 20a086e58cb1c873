"""Filters on their way into a compiled segment: taken one by one or by the column, and given up at once.

A million filters as objects of Python's take several times the memory of the arrays they are compiled to. A
`Gatherer` therefore keeps of a filter what its engine compiles, in arrays that grow: always the slot and the
canonical text; the filter itself only for engines that look at nothing else.

A `FilterColumn` is where many filters come from: texts in packed form, and the filters themselves on demand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic

from distributary.kernel import Ints, sealed
from distributary.matching import frozen
from distributary.matching.growing import GrowingArray
from distributary.matching.index import Arrays, F
from distributary.matching.joining import take_texts


class GrowingTexts:
    """Texts one after another, to which more are added.

    >>> import numpy as np
    >>> texts = GrowingTexts()
    >>> texts.append("a/b")
    >>> texts.extend(frozen.pack_texts(["x", "y", "z"]), np.array([2, 0], np.int32))
    >>> frozen.unpack_texts(texts.packed())
    ['a/b', 'z', 'x']
    """

    def __init__(self) -> None:
        self._offsets = GrowingArray("q")
        self._offsets.append(0)
        self._bytes = GrowingArray("B")

    def append(self, text: str) -> None:
        """Add one text."""
        self._bytes.frombytes(text.encode())
        self._offsets.append(len(self._bytes))

    def extend(self, packed: Arrays, chosen: Ints) -> None:
        """Add the chosen ones of packed texts."""
        ends, data = take_texts(sealed(chosen), sealed(packed["offsets"]), sealed(packed["bytes"]))
        before = len(self._bytes)
        self._bytes.extend(data[: ends[-1]])
        self._offsets.extend(ends[1:] + before)

    def packed(self) -> Arrays:
        """The texts as `frozen.pack_texts` has them. Nothing may be added after that."""
        return {"offsets": self._offsets.taken(), "bytes": self._bytes.taken()}


class FilterColumn(ABC, Generic[F]):
    """Filters of one kind by code, a whole number from 0 on."""

    texts: Arrays
    """Their canonical texts, packed, by code."""

    @abstractmethod
    def filter(self, code: int) -> F:
        """One of the filters."""


class TextColumn(FilterColumn[F]):
    """Filters that are read from their canonical texts when they are asked for."""

    def __init__(self, texts: Arrays, parse: Callable[[str], F]) -> None:
        self.texts = texts
        self._parse = parse

    def filter(self, code: int) -> F:
        """Read the filter."""
        return self._parse(frozen.unpack_text(self.texts, code))


class HeldColumn(FilterColumn[F]):
    """Filters that were read already; None under a code that nobody asks for."""

    def __init__(self, filters: list[F | None]) -> None:
        self.texts = frozen.pack_texts(["" if filter is None else filter.text for filter in filters])
        self._filters = filters

    def filter(self, code: int) -> F:
        """The filter itself."""
        filter = self._filters[code]
        assert filter is not None, "nobody asks for what is no filter"
        return filter


class Gatherer(Generic[F]):
    """Gathers slots, texts and the filters themselves."""

    def __init__(self) -> None:
        self._slots = GrowingArray("i")
        self._texts = GrowingTexts()
        self.filters: list[F] = []
        """The filters in the order in which they came, if this kind of gatherer keeps them."""

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, slot: int, filter: F) -> None:
        """Take one filter."""
        position = len(self._slots)
        self._slots.append(slot)
        self._texts.append(filter.text)
        self.keep(position, filter)

    def take(self, slots: Ints, column: FilterColumn[F], codes: Ints) -> None:
        """Take the filters of these codes, each under the slot in the same place."""
        position = self.take_texts(slots, column, codes)
        for place, code in enumerate(codes.tolist(), position):
            self.keep(place, column.filter(code))

    def take_texts(self, slots: Ints, column: FilterColumn[F], codes: Ints) -> int:
        """Take the slots and the texts alone; the position of the first."""
        position = len(self._slots)
        self._slots.extend(slots)
        self._texts.extend(column.texts, codes)
        return position

    def keep(self, position: int, filter: F) -> None:
        """Keep what the engine needs of the filter, which has this position."""
        self.filters.append(filter)

    def slots(self) -> Ints:
        """The slots. Nothing may be added after that."""
        return self._slots.taken()

    def texts(self) -> Arrays:
        """The texts, packed. Nothing may be added after that."""
        return self._texts.packed()


class TextGatherer(Gatherer[F]):
    """Gathers for engines that compile nothing but texts."""

    def take(self, slots: Ints, column: FilterColumn[F], codes: Ints) -> None:
        """Take the filters of these codes, none of which is made."""
        self.take_texts(slots, column, codes)

    def keep(self, position: int, filter: F) -> None:
        """The text is enough."""
