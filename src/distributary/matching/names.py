"""Texts by number and numbers by text: a sorted base in Arrow buffers, and what changed since beside it.

The base, with the order of its texts, may be memory-mapped; it is never written to. Changes since are kept
in small dictionaries, so that the first change after opening costs what the thousandth does and nothing is
made into Python objects but what changed. When changes are many they are merged into a new base.

Cost: looking a text up is O(log n) comparisons in the base, or O(1) among the changes; taking and ranking m
numbers is O(m log changes), in arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from distributary.kernel import Bytes, Flags, Ints, Longs, Words, inlined, kernel, sealed, text_order
from distributary.matching.bound import BoundArrays, array_at
from distributary.matching.index import Arrays
from distributary.matching.joining import EXPECTED, NUMBER_BITS, divided, join_texts, take_texts, texts_array
from distributary.matching.memory import WORD, prefetch
from distributary.matching.order import at_places

FEW = 4096
"""Up to this many changed texts are kept beside the base; beyond it, a new base is made."""

CHANGED = -1
"""The rank of a number of the base that has another text now, or none."""

SEPARATORS = range(32)
"""Bytes that may stand between texts which Python divides at once: the first that is in none of them."""

NO_KEYS: Longs = np.empty(0, np.int64)

SORTED_ANEW = 16
"""A base is sorted anew when more than one text in so many changed; else its order is merged."""


class _Recent(NamedTuple):
    """The changes by ascending number: their texts, and their ranks between those of the base."""

    numbers: Ints
    texts: pa.Array
    ranks: Longs
    apart: int
    """How far the ranks of the base are apart among these: the first of them has this rank."""


class _BoundBase(NamedTuple):
    """What kernels read of the base to name the matches of one event, and what may separate its texts."""

    arrays: BoundArrays
    separator: int | None


class NameTable:
    """Distinct texts by number; a number may have none.

    `_replaced` holds the numbers of the base that have another text now (None: no text), `_added` the texts
    from the end of the base on; `_numbers` leads from the texts in both to their numbers.
    """

    def __init__(self) -> None:
        self._base: pa.Array
        self._offsets: Longs
        self._bytes: Bytes
        self._order: Ints | None
        self._rank: Ints | None
        self._replaced: dict[int, str | None]
        self._added: list[str | None]
        self._numbers: dict[str, int]
        self._recent: _Recent | None
        self._views: tuple[memoryview, memoryview]
        """The offsets and the bytes, for looking at one number."""
        self.bases = 0
        """How often the base was replaced: whoever keeps keys or ranks keeps them no longer than that."""
        self._bound: _BoundBase | None
        """What `ordered` reads of the base."""
        self._set_base(pa.array([], pa.large_string()))

    def __len__(self) -> int:
        return len(self._base) + len(self._added)

    def find(self, text: str) -> int | None:
        """The number of a text."""
        number = self._numbers.get(text)
        if number is not None or not len(self._base):
            return number
        encoded = text.encode()
        at = self._place(encoded)
        if at == len(self.order):
            return None
        number = int(self.order[at])
        if self._bytes[self._offsets[number] : self._offsets[number + 1]].tobytes() != encoded:
            return None
        return None if number in self._replaced else number

    def text(self, number: int) -> str | None:
        """The text of a number."""
        offsets, data = self._views
        if number >= len(offsets) - 1:
            return self._added[number - len(self._base)]
        if number in self._replaced:
            return self._replaced[number]
        start, end = offsets[number], offsets[number + 1]
        if start == end and not self._base[number].is_valid:
            return None
        return str(data[start:end], "utf-8")

    def put(self, number: int, text: str | None) -> None:
        """Give a number, which may be the next new one, another text that no other number has, or none."""
        self._recent = None
        if number == len(self):
            self._added.append(text)
        else:
            before = self.text(number)
            if before is not None:
                self._numbers.pop(before, None)
            if number < len(self._base):
                self._replaced[number] = text
                if self._rank is not None:
                    self._rank[number] = CHANGED
            else:
                self._added[number - len(self._base)] = text
        if text is not None:
            self._numbers[text] = number

    def take(self, numbers: Ints) -> pa.Array:
        """The texts of these numbers, which have some, as an Arrow array of large strings."""
        recent = self._changes()
        if recent is None or not len(numbers):
            return self._taken(numbers)
        places, changed = places_of(numbers, recent.numbers)
        if not changed.any():
            return self._taken(numbers)
        patches = recent.texts.take(pa.array(places[changed]))
        if len(patches) == len(numbers):
            return patches
        taken = self._taken(np.where(changed, np.int32(0), numbers))
        return pc.replace_with_mask(taken, pa.array(changed), patches)

    def sorted(self, numbers: Ints) -> Ints:
        """These distinct numbers, which have texts, in the order of their texts."""
        ranks = self.ranks(numbers)
        if self._changes() is not None:  # the ranks may be too large for keys
            return numbers[np.argsort(ranks)]
        return np.sort(ranks << NUMBER_BITS | numbers).astype(np.int32)

    def ordered(self, numbers: list[int] | Ints, keys: Longs = NO_KEYS) -> list[str]:
        """The texts of these numbers, which have some, and of these keys, sorted.

        A list of numbers is taken to be short. Those of the base come in the order of their ranks, and what
        changed since is sorted in.
        """
        if isinstance(numbers, list):
            if not len(keys):
                few: list[Any] = list(map(self.text, numbers))
                few.sort()
                return few
            numbers = np.array(numbers, np.int32)
        of_numbers: Longs = np.empty(len(numbers), np.int64)
        of_base = _keys_of(self._bound_base().arrays.words, numbers, of_numbers)
        keys = np.concatenate((keys, of_numbers[:of_base]))
        texts = self.in_order(keys) if len(keys) else []
        if of_base < len(numbers):
            texts += map(self.text, of_numbers[of_base:].tolist())  # type: ignore[arg-type]
            texts.sort()
        return texts

    def in_order(self, keys: Longs) -> list[str]:
        """The texts of these keys, of which there are some, sorted, as the keys are then.

        They are made one text, which Python divides: that is faster than making one by one.
        """
        keys.sort()
        bound = self._bound_base()
        words, separator = bound.arrays.words, bound.separator
        if separator is None:
            return list(self._taken(keys.astype(np.int32)).to_pylist())
        joined: Bytes = np.empty(len(keys) * EXPECTED, np.uint8)
        length = _join(words, keys, separator, joined)
        if length > len(joined):
            joined = np.empty(length, np.uint8)
            length = _join(words, keys, separator, joined)
        return divided(joined, length, separator)

    def base(self) -> Sequence[tuple[NDArray[Any], DTypeLike]]:
        """The offsets and the bytes of the base with their types."""
        return (self._offsets, np.int64), (self._bytes, np.uint8)

    def separated(self) -> tuple[Sequence[tuple[NDArray[Any], DTypeLike]], int | None]:
        """The offsets and the bytes of the base with their types, and a byte that is in none of its texts."""
        least = self._bytes.min(initial=SEPARATORS.stop)
        free = (code for code in SEPARATORS if code < least or not (self._bytes == code).any())
        return self.base(), next(free, None)

    def _bound_base(self) -> _BoundBase:
        """What kernels read of the base."""
        bound = self._bound
        if bound is None:
            texts, separator = self.separated()
            bound = self._bound = _BoundBase(BoundArrays([(self.rank, np.int32), *texts]), separator)
        return bound

    def ranks(self, numbers: Ints) -> Longs:
        """For each of these numbers, which have texts, a whole number that is ordered as the texts are."""
        recent = self._changes()
        if recent is None or not len(numbers):
            return at_places(self.rank, numbers).astype(np.int64)
        places, changed = places_of(numbers, recent.numbers)
        if not len(self._base):
            return recent.ranks[places]
        ranks = at_places(self.rank, np.where(changed, np.int32(0), numbers)).astype(np.int64)
        return np.where(changed, recent.ranks[places], (ranks + 1) * recent.apart)

    def texts(self) -> list[str]:
        """All texts, sorted."""
        texts: list[str | None] = self._base.to_pylist()
        for number, text in self._replaced.items():
            texts[number] = text
        return sorted(text for text in (*texts, *self._added) if text is not None)

    def settle(self) -> None:
        """Make a new base of everything."""
        changes = len(self._replaced) + len(self._added)
        if not changes:
            return
        order = self._merged_order() if changes * SORTED_ANEW <= len(self._base) else None
        parts = []
        if len(self._base):
            replaced = np.zeros(len(self._base), np.bool_)
            replaced[list(self._replaced)] = True
            texts = pa.array([self._replaced[number] for number in sorted(self._replaced)], pa.large_string())
            parts.append(pc.replace_with_mask(self._base, pa.array(replaced), texts))
        parts.append(pa.array(self._added, pa.large_string()))
        self._set_base(pa.concat_arrays(parts), order)

    @property
    def order(self) -> Ints:
        """The numbers of the base that have a text there, in the order of their texts."""
        if self._order is None:
            self._order = _sorted(self._base, self._offsets, self._bytes)
        return self._order

    @property
    def rank(self) -> Ints:
        """For each number of the base its place in the order, or CHANGED."""
        if self._rank is None:
            rank = np.zeros(len(self._base), np.int32)
            rank[self.order] = np.arange(len(self.order), dtype=np.int32)
            rank[list(self._replaced)] = CHANGED
            self._rank = rank
        return self._rank

    def freeze(self) -> Arrays:
        """The base as arrays, after a new one was made of everything."""
        self.settle()
        used = self._base.is_valid().to_numpy(zero_copy_only=False)
        return {
            "offsets": self._offsets,
            "bytes": self._bytes,
            "validity": np.packbits(used[: 0 if used.all() else None], bitorder="little"),
            "order": self.order,
            "rank": self.rank,
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> NameTable:
        """The names that `freeze` wrote."""
        names = cls()
        buffers = [pa.py_buffer(arrays[name]) for name in ("validity", "offsets", "bytes")]
        if not len(arrays["validity"]):  # every number has a text
            buffers[0] = None
        base = pa.Array.from_buffers(pa.large_string(), len(arrays["offsets"]) - 1, buffers)
        names._set_base(base, arrays["order"], arrays["rank"])
        return names

    @classmethod
    def of_texts(cls, texts: Arrays) -> NameTable:
        """Names that are these packed texts, which differ, by number. They are sorted here."""
        names = cls()
        buffers = [None, pa.py_buffer(texts["offsets"]), pa.py_buffer(texts["bytes"])]
        base = pa.Array.from_buffers(pa.large_string(), len(texts["offsets"]) - 1, buffers)
        names._set_base(base, _sorted(base, texts["offsets"], texts["bytes"]))
        return names

    def memory(self) -> int:
        """The bytes of the base and of what changed since."""
        changed = [text for text in (*self._replaced.values(), *self._added) if text is not None]
        tables = (self._replaced, self._added, self._numbers)
        arrays = [array for array in (self._order, self._rank) if array is not None]
        return int(
            self._base.nbytes
            + sum(map(sys.getsizeof, (*tables, *changed)))
            + sum(array.nbytes for array in arrays)
        )

    def _set_base(self, base: pa.Array, order: Ints | None = None, rank: Ints | None = None) -> None:
        self.bases += 1
        self._base = base
        self._order = order
        self._rank = rank
        _, offsets, data = base.buffers()
        self._offsets = np.zeros(1, np.int64)
        if len(base):
            self._offsets = np.frombuffer(offsets, np.int64)[: len(base) + 1]
        self._offsets = sealed(self._offsets)
        self._bytes = sealed(np.frombuffer(data or b"", np.uint8)[: self._offsets[-1]])
        self._views = self._offsets.data, self._bytes.data
        self._replaced = {}
        self._added = []
        self._numbers = {}
        self._recent = None
        self._bound = None

    def _taken(self, numbers: Ints) -> pa.Array:
        """The texts of these numbers of the base."""
        return texts_array(*take_texts(sealed(numbers), self._offsets, self._bytes))

    def _place(self, encoded: bytes) -> int:
        """How many texts of the base are less than this one; bytes sort as the texts do."""
        return _place(np.frombuffer(encoded, np.uint8), sealed(self.order), self._offsets, self._bytes)

    def _changes(self) -> _Recent | None:
        """What changed since the base, if anything; when that is much, a new base is made first."""
        if not self._replaced and not self._added:
            return None
        if len(self._replaced) + len(self._added) > FEW:
            self.settle()
            return None
        if self._recent is None:
            replaced = sorted(self._replaced)
            numbers = np.array([*replaced, *range(len(self._base), len(self))], np.int32)
            texts = [*(self._replaced[number] for number in replaced), *self._added]
            named = sorted((text, at) for at, text in enumerate(texts) if text is not None)
            apart = len(named) + 1
            ranks = np.zeros(len(texts), np.int64)
            for position, (text, at) in enumerate(named, 1):
                ranks[at] = self._place(text.encode()) * apart + position
            self._recent = _Recent(numbers, pa.array(texts, pa.large_string()), ranks, apart)
        return self._recent

    def _merged_order(self) -> Ints:
        """The order with the changes in it."""
        named = sorted(self._numbers.items())
        places = np.array([self._place(text.encode()) for text, _ in named], np.int64)
        stale = np.zeros(len(self._base), np.bool_)
        stale[list(self._replaced)] = True
        gone = np.insert(stale[self.order], places, False)
        merged: Ints = np.insert(self.order, places, np.array([number for _, number in named], np.int32))
        return merged[~gone]


def _sorted(base: pa.Array, offsets: Longs, data: Bytes) -> Ints:
    """The numbers of the texts of an array, in their order.

    Mostly the first eight bytes tell texts apart, which are sorted as whole numbers; those that they do not
    tell apart keep their places together, in which they are sorted as texts.
    """
    given = np.flatnonzero(base.is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
    words = _first_words(sealed(given), offsets, data)
    by_word = np.argsort(words)
    ordered, words = given[by_word], words[by_word]
    equal = words[1:] == words[:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    if len(tied):
        among = base.take(pa.array(ordered[tied]))
        ordered[tied] = ordered[tied][pc.sort_indices(among).to_numpy()]
    return ordered


@kernel
def _first_words(numbers: Ints, offsets: Longs, data: Bytes) -> Words:
    """The first eight bytes of each text as a whole number, the first of them highest; NUL where none are."""
    words = np.empty(len(numbers), np.uint64)
    for at in range(len(numbers)):
        start, end = offsets[numbers[at]], offsets[numbers[at] + 1]
        word = np.uint64(0)
        for place in range(start, start + WORD):
            word = (word << np.uint64(8)) | np.uint64(data[place] if place < end else 0)
        words[at] = word
    return words


@kernel
def _place(text: Bytes, order: Ints, offsets: Longs, data: Bytes) -> int:
    """How many of the texts, whose numbers in their order are given, are less than this one."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        start, end = offsets[order[middle]], offsets[order[middle] + 1]
        if text_order(data, start, end, text, 0, len(text)) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _keys_of(words: Longs, numbers: Ints, keys: Longs) -> int:
    """Write the keys of the numbers whose texts are in the base, and behind them the other numbers.

    Returns how many keys there are.
    """
    rank = array_at(words, 0, np.int32)
    for number in numbers:
        prefetch(rank, number)
    of_base, others = 0, len(numbers)
    for number in numbers:
        if number < len(rank) and rank[number] != CHANGED:
            keys[of_base] = key_of(rank[number], number)
            of_base += 1
        else:
            others -= 1
            keys[others] = number
    return of_base


@inlined
def key_of(rank: Any, number: Any) -> Any:
    """The key of a text of the base."""
    return np.int64(rank) << NUMBER_BITS | np.int64(number)


@kernel
def _join(words: Longs, keys: Longs, separator: int, joined: Bytes) -> int:
    """Write the texts of these keys of the bound base, as `join_texts` does."""
    offsets, data = array_at(words, 1, np.int64), array_at(words, 2, np.uint8)
    return int(join_texts(offsets, data, keys, separator, joined))


def places_of(wanted: NDArray[Any], keys: NDArray[Any]) -> tuple[Longs, Flags]:
    """For each number its place among the ascending keys, of which there are some, and whether it is one."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return places, keys[places] == wanted
