"""The trie of all routes of a segment, as arrays, with what is held at its states.

A state is a chain of links (see `path_routes`); chains with equal beginnings share states. The edges that
leave a state are grouped by axis and label, so that the classes a group leads to are found once for all the
conditions in it. At a state stand:

* entries that hold as soon as the state is reached;
* tests of the value there against sorted literals: ranges, by relation, and inequalities.

Equalities are looked up from the document's side instead: their keys are a label and a literal, in a hash
table whose answers are compared in full, and each key has postings of a state and an entry.

An entry is twice the filter's position, plus one when what it finds has to be checked.
"""

from __future__ import annotations

from collections import defaultdict
from math import isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.matching.index import Arrays
from distributary.matching.kernel import kernel
from distributary.matching.path_expressions import EQUAL, STRING_EQUAL, UNEQUAL, Expressions, locked
from distributary.matching.path_routes import Route

Literal = str | float


class Trie(NamedTuple):
    """The arrays, as the kernels read them. A range of what belongs to i is `low[i]:low[i + 1]`."""

    group_low: NDArray[np.int32]
    """By state: its groups of edges."""
    group_deep: NDArray[np.bool_]
    group_code: NDArray[np.int32]
    edge_low: NDArray[np.int32]
    """By group: its edges."""
    edge_condition: NDArray[np.int32]
    edge_state: NDArray[np.int32]
    plain_low: NDArray[np.int32]
    """By state: the entries that hold there."""
    plain_entry: NDArray[np.int32]
    test_low: NDArray[np.int32]
    """By state: its groups of tests."""
    test_relation: NDArray[np.int8]
    literal_low: NDArray[np.int32]
    """By group of tests: its literals, ascending; a string stands as its place in the table of strings."""
    literal: NDArray[np.float64]
    literal_entry: NDArray[np.int32]
    state_has_keys: NDArray[np.bool_]
    key_table: NDArray[np.int32]
    key_code: NDArray[np.int32]
    key_string: NDArray[np.int32]
    """By key: its string's place in the table of strings, -1 when it is a number."""
    key_number: NDArray[np.uint64]
    """By key: the bits of its number."""
    key_low: NDArray[np.int32]
    """By key: its postings."""
    key_state: NDArray[np.int32]
    key_entry: NDArray[np.int32]
    code_has_strings: NDArray[np.bool_]
    code_has_numbers: NDArray[np.bool_]

    @classmethod
    def of(cls, arrays: Arrays) -> Trie:
        return cls(*(locked(arrays[f"trie.{name}"]) for name in cls._fields))


class TrieBuilder:
    """Collects routes, and lays them out as arrays."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._states: dict[tuple[int, bool, int, int], int] = {}
        self._plain: list[tuple[int, int]] = []
        self._tests: list[tuple[int, int, float, int]] = []
        self._keys: defaultdict[tuple[int, Literal], list[tuple[int, int]]] = defaultdict(list)

    def add(self, position: int, route: Route) -> None:
        state = 0
        for link in route.links:
            if link.condition == 0:
                return
            step = (state, *link)
            state = self._states.setdefault(step, len(self._states) + 1)
        entry = 2 * position + (not route.exact)
        if route.comparison is None:
            self._plain.append((state, entry))
            return
        relation, literal = route.comparison
        if isinstance(literal, float) and isnan(literal):
            if relation == UNEQUAL:
                self._plain.append((state, entry))
        elif relation in (STRING_EQUAL, EQUAL):
            self._keys[route.links[-1].code, literal].append((state, entry))
        else:
            place = literal if isinstance(literal, float) else self._expressions.literal(literal)
            self._tests.append((state, relation, place, entry))

    def compiled(self) -> Arrays:
        """Everything but the hash table, which needs the table of strings (see `with_key_table`)."""
        states = len(self._states) + 1
        return {
            f"trie.{name}": array
            for part in (self._edges(states), self._held(states), self._postings(states))
            for name, array in part.items()
        }

    def _edges(self, states: int) -> Arrays:
        steps = np.array(list(self._states), np.int32).reshape(-1, 4)
        order = np.lexsort((steps[:, 3], steps[:, 2], steps[:, 1], steps[:, 0]))
        source, deep, code, condition = steps[order].T
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(steps[order, :3], axis=0) != 0).any(axis=1)
        return {
            "group_low": _low(source[new], states),
            "group_deep": deep[new].astype(np.bool_),
            "group_code": code[new].copy(),
            "edge_low": np.append(np.flatnonzero(new), len(order)).astype(np.int32),
            "edge_condition": condition.copy(),
            "edge_state": (order + 1).astype(np.int32),
        }

    def _held(self, states: int) -> Arrays:
        plain = np.array(sorted(self._plain), np.int32).reshape(-1, 2)
        tests = sorted(self._tests)
        place = np.array([(state, relation) for state, relation, _, _ in tests], np.int32).reshape(-1, 2)
        new = np.ones(len(place), np.bool_)
        new[1:] = (np.diff(place, axis=0) != 0).any(axis=1)
        return {
            "plain_low": _low(plain[:, 0], states),
            "plain_entry": plain[:, 1].copy(),
            "test_low": _low(place[new, 0], states),
            "test_relation": place[new, 1].astype(np.int8),
            "literal_low": np.append(np.flatnonzero(new), len(place)).astype(np.int32),
            "literal": np.array([literal for _, _, literal, _ in tests], np.float64),
            "literal_entry": np.array([entry for _, _, _, entry in tests], np.int32),
        }

    def _postings(self, states: int) -> Arrays:
        keys = list(self._keys)
        postings = np.array([each for key in keys for each in self._keys[key]], np.int32).reshape(-1, 2)
        low = np.zeros(len(keys) + 1, np.int32)
        np.cumsum([len(self._keys[key]) for key in keys], out=low[1:])
        code = np.array([code for code, _ in keys], np.int32)
        string = np.array(
            [self._expressions.literal(each) if isinstance(each, str) else -1 for _, each in keys], np.int32
        )
        codes = len(self._expressions.codes)
        has_keys, has_strings, has_numbers = (np.zeros(size, np.bool_) for size in (states, codes, codes))
        has_keys[postings[:, 0]] = True
        has_strings[code[string >= 0]] = True
        has_numbers[code[string < 0]] = True
        return {
            "state_has_keys": has_keys,
            "key_code": code,
            "key_string": string,
            "key_number": np.array(
                [0.0 if isinstance(each, str) else each for _, each in keys], np.float64
            ).view(np.uint64),
            "key_low": low,
            "key_state": postings[:, 0].copy(),
            "key_entry": postings[:, 1].copy(),
            "code_has_strings": has_strings,
            "code_has_numbers": has_numbers,
        }


def with_key_table(arrays: Arrays) -> Arrays:
    """The arrays of a trie and its expressions, with the hash table of the trie's keys."""
    table = _hash_keys(
        arrays["trie.key_code"],
        arrays["trie.key_string"],
        arrays["trie.key_number"],
        locked(arrays["strings.offsets"]),
        locked(arrays["strings.bytes"]),
    )
    return {**arrays, "trie.key_table": table}


def _low(places: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Where the run of each number from 0 to `count` begins in an ascending array."""
    low: NDArray[np.int32] = np.searchsorted(places, np.arange(count + 1)).astype(np.int32)
    return low


@kernel
def hash_bytes(data: NDArray[np.uint8], start: int, end: int) -> np.uint64:
    code = np.uint64(0xCBF29CE484222325)
    for at in range(start, end):
        code = (code ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    return code


@kernel
def key_place(code: int, value: np.uint64, size: int) -> int:
    """Where to start looking for a key in a table of that size, a power of two."""
    mixed = (value ^ (np.uint64(code) * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xBF58476D1CE4E5B9)
    place: int = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))  # type: ignore[assignment]
    return place


@kernel
def _hash_keys(
    key_code: NDArray[np.int32],
    key_string: NDArray[np.int32],
    key_number: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
) -> NDArray[np.int32]:
    size = 2
    while size < 2 * len(key_code):
        size *= 2
    table = np.full(size, -1, np.int32)
    for key in range(len(key_code)):
        if key_string[key] >= 0:
            value = hash_bytes(data, offsets[key_string[key]], offsets[key_string[key] + 1])
        else:
            value = key_number[key]
        place = key_place(key_code[key], value, size)
        while table[place] >= 0:
            place = (place + 1) & (size - 1)
        table[place] = key
    return table
