"""From slots or numbers to places: which subscriptions the pairs of a batch have, each once, in their order.

A subscription's *place* is where its id stands among the ids of all that were found. Places sort as ids do,
are small, and lead to ids and subscribers that lie next to each other. Where a row has many, a bit is set for
each place, and the words of bits are read in turn, so that nothing is compared.

Cost: O(pairs + rows), a byte for each slot or number that there is, and sorting what was found, each once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Ints, Longs, Words, inlined, kernel, sealed, sealed_arrays
from distributary.matching.index import Pairs
from distributary.matching.memory import lowest_bit
from distributary.matching.names import NameTable
from distributary.matching.naming import NONE
from distributary.matching.order import at_places

FEW = 16
"""Up to so many places of one row are put in order by comparing them."""


class PlacedPairs(NamedTuple):
    """Pairs of a row and a place, by row and then by place."""

    rows: Ints
    places: Ints
    numbers: Ints
    """By place the number of the subscription."""


def is_dense(pairs: Pairs, numbers: int, rows: int) -> bool:
    """Whether the pairs of so many rows have so many of all numbers that this is the fastest way."""
    return rows * (numbers // 64 + 1) <= len(pairs.rows)


def placed_numbers(pairs: Pairs, names: NameTable, rows: int) -> PlacedPairs:
    """From pairs of row and number, of a batch of so many rows."""
    held = np.flatnonzero(_times(sealed(pairs.slots), np.zeros(len(names), np.int32))).astype(np.int32)
    numbers = names.sorted(held)
    return _placed(pairs, _alone(_place_of(numbers, len(names))), numbers, len(pairs.rows), rows)


def placed_slots(
    pairs: Pairs, first: Ints, first_changing: Ints, following: Ints, names: NameTable, rows: int
) -> PlacedPairs | None:
    """From pairs of row and slot; None when some subscription of these slots has a tolerance.

    By slot there is the first of its subscriptions with and without a tolerance, by number the next.
    """
    times = _times(sealed(pairs.slots), np.zeros(len(first), np.int32))
    slots = np.flatnonzero(times).astype(np.int32)
    if (first_changing[slots] != NONE).any():
        return None
    held, starts = _listed(slots, sealed(first), sealed(following))
    numbers = names.sorted(held)
    places = at_places(_place_of(numbers, len(names)), held)
    if len(held) == len(slots):
        place_of_slot: Ints = np.empty(len(first), np.int32)
        place_of_slot[slots] = places
        return _placed(pairs, _alone(place_of_slot), numbers, len(pairs.rows), rows)
    lists = _Lists(_place_of(slots, len(first)), starts, places)
    return _placed(pairs, lists, numbers, int(np.dot(times[slots], np.diff(starts).astype(np.int64))), rows)


class _Lists(NamedTuple):
    """The places of the subscriptions of slots: those of slot s are list `of[s]`.

    Where each has one subscription, `starts` is empty and its place is `of[s]`.
    """

    of: Ints
    starts: Ints
    places: Ints


def _alone(place: Ints) -> _Lists:
    """Each slot, or number, has one subscription, with this place."""
    none: Ints = np.empty(0, np.int32)
    return _Lists(place, none, none)


def _placed(pairs: Pairs, lists: _Lists, numbers: Ints, total: int, rows: int) -> PlacedPairs:
    """The pairs of a row and the places of the lists of its slots, so many in all."""
    # Arrays are made here, because NumPy asks for large pages, which are much faster to get.
    given, slots = sealed_arrays(pairs)
    if not _is_ascending(given):
        by_row = Pairs(*(np.empty(len(given), np.int32) for _ in pairs))
        _put_in_rows(given, slots, np.zeros(rows + 1, np.int64), *by_row)
        given, slots = sealed_arrays(by_row)
    placed = PlacedPairs(np.empty(total, np.int32), np.empty(total, np.int32), numbers)
    words = np.zeros(-(-len(numbers) // 64), np.uint64)
    summary = np.zeros(-(-len(words) // 64), np.uint64)
    of, starts, places = sealed_arrays(lists)
    _place_rows(given, slots, of, starts, places, words, summary, placed.rows, placed.places)
    return placed


def distinct_places(numbers: Ints, room: int) -> tuple[Ints, Ints]:
    """The distinct ones of these numbers, which are below `room`, and where each of all is among them."""
    distinct = np.flatnonzero(_times(sealed(numbers), np.zeros(room, np.int32))).astype(np.int32)
    return distinct, at_places(_place_of(distinct, room), numbers)


def _place_of(numbers: Ints, room: int) -> Ints:
    """For each of these numbers, which are below `room`, its place among them; nothing for any other."""
    places: Ints = np.empty(room, np.int32)
    places[numbers] = np.arange(len(numbers), dtype=np.int32)
    return places


@kernel
def _is_ascending(rows: Ints) -> bool:
    at = 1
    while at < len(rows) and rows[at] >= rows[at - 1]:
        at += 1
    return at >= len(rows)


@kernel
def _put_in_rows(rows: Ints, slots: Ints, ends: Longs, out_rows: Ints, out_slots: Ints) -> None:
    """Write the pairs with ascending rows; given is a zero for each row, and one more."""
    for row in rows:
        ends[row + 1] += 1
    for row in range(len(ends) - 1):
        ends[row + 1] += ends[row]
    for at in range(len(rows)):  # from where a row starts to where it ends
        to = ends[rows[at]]
        out_rows[to], out_slots[to] = rows[at], slots[at]
        ends[rows[at]] = to + 1


@kernel
def _times(numbers: Ints, times: Ints) -> Ints:
    """How often each number is there; given is a zero for each."""
    for number in numbers:
        times[number] += 1
    return times


@kernel
def _listed(slots: Ints, first: Ints, following: Ints) -> tuple[Ints, Ints]:
    """The subscriptions of these slots, slot by slot, and where those of each start."""
    starts, count = np.zeros(len(slots) + 1, np.int32), 0
    for at in range(len(slots)):
        number = first[slots[at]]
        while number != NONE:
            count += 1
            number = following[number]
        starts[at + 1] = count
    held = np.empty(count, np.int32)
    for at in range(len(slots)):
        number = first[slots[at]]
        for place in range(starts[at], starts[at + 1]):
            held[place] = number
            number = following[number]
    return held, starts


@kernel
def _place_rows(
    rows: Ints,
    slots: Ints,
    of: Ints,
    starts: Ints,
    places: Ints,
    words: Words,
    summary: Words,
    out_rows: Ints,
    out_places: Ints,
) -> None:
    """Write the pairs of row and place, given those of row and slot with ascending rows.

    There is a bit in the words for each place, and one in the summary for each word; all are zero.
    """
    first, filled = 0, 0
    while first < len(rows):
        begin, last, row = filled, first, rows[first]
        while last < len(rows) and rows[last] == row:
            last += 1
        of_row = slots[first:last]
        size = _size(of_row, of, starts)
        if size <= FEW:
            filled = _insert(of_row, of, starts, places, begin, out_places)
        elif size >= len(words):
            _set_bits(of_row, of, starts, places, words)
            for word in range(len(words)):
                filled = _read_word(words, np.uint64(word), out_places, filled)
        else:
            _set_summed_bits(of_row, of, starts, places, words, summary)
            for part in range(len(summary)):
                left = summary[part]
                while left != 0:
                    word = np.uint64(64 * part) + lowest_bit(left)
                    filled = _read_word(words, word, out_places, filled)
                    left &= left - np.uint64(1)
                summary[part] = 0
        out_rows[begin:filled] = row
        first = last


@inlined
def _size(slots: Ints, of: Ints, starts: Ints) -> Any:
    """How many subscriptions the slots of a row have; of many slots, at least as many as they are."""
    if len(slots) > FEW or not len(starts):
        return len(slots)
    size = 0
    for slot in slots:
        size += starts[of[slot] + 1] - starts[of[slot]]
    return size


@inlined
def _insert(slots: Ints, of: Ints, starts: Ints, places: Ints, begin: Any, out: Ints) -> Any:
    """Write the places of few slots in order from there on; where they end."""
    filled = begin
    for slot in slots:
        if not len(starts):
            filled = _put(of[slot], begin, filled, out)
            continue
        for at in range(starts[of[slot]], starts[of[slot] + 1]):
            filled = _put(places[at], begin, filled, out)
    return filled


@inlined
def _put(place: Any, begin: Any, filled: Any, out: Ints) -> Any:
    """Write a place where it stands in order among those written; where they end."""
    to = filled
    while to > begin and out[to - 1] > place:
        out[to] = out[to - 1]
        to -= 1
    out[to] = place
    return filled + 1


@inlined
def _set_bits(slots: Ints, of: Ints, starts: Ints, places: Ints, words: Words) -> None:
    if not len(starts):
        for slot in slots:
            _set_bit(of[slot], words)
        return
    for slot in slots:
        for at in range(starts[of[slot]], starts[of[slot] + 1]):
            _set_bit(places[at], words)


@inlined
def _set_summed_bits(slots: Ints, of: Ints, starts: Ints, places: Ints, words: Words, summary: Words) -> None:
    if not len(starts):
        for slot in slots:
            _set_bit(of[slot], words)
            _set_bit(of[slot] >> 6, summary)
        return
    for slot in slots:
        for at in range(starts[of[slot]], starts[of[slot] + 1]):
            _set_bit(places[at], words)
            _set_bit(places[at] >> 6, summary)


@inlined
def _set_bit(place: Any, words: Words) -> None:
    bit = np.uint64(place)
    words[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@inlined
def _read_word(words: Words, word: Any, out: Ints, filled: Any) -> Any:
    """Write the places whose bits a word has, and make it zero; where they end."""
    left, base, to = words[word], np.uint64(64) * word, np.uint64(filled)
    while left != 0:
        out[to] = base + lowest_bit(left)
        to += np.uint64(1)
        left &= left - np.uint64(1)
    words[word] = 0
    return np.int64(to)
