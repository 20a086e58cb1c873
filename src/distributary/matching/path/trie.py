"""The trie of all routes of a segment, as arrays, with what is held at its states.

A state is a chain of links (see `path_routes`); chains with equal beginnings share states. It is known by its
last link and the state before it, for routes are followed upwards. What a document asks about is:

* by label, routes that end in no value, as expressions on the whole document;
* by label and relation, ranges and inequalities at a state, ascending by literal;
* by label and literal, equalities at a state, in a hash table whose answers are compared in full.

Each has an entry: twice the filter's position, plus one when what it finds has to be checked.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import kernel, sealed
from distributary.matching.index import Arrays
from distributary.matching.path.expressions import (
    EQUAL,
    FALSE,
    STRING_EQUAL,
    TRUE,
    Expressions,
)
from distributary.matching.path.routes import Route

Literal = str | float
RELATIONS = 8
"""How many ways to compare there are."""


class Trie(NamedTuple):
    """The arrays, as the kernels read them. A range of what belongs to i is `low[i]:low[i + 1]`."""

    states: NDArray[np.int32]
    """By state: the state before it, whether its last link is deep, that link's code, and its condition."""
    plain_low: NDArray[np.int32]
    """By code: the entries of routes that end in no value."""
    plain_expression: NDArray[np.int32]
    plain_entry: NDArray[np.int32]
    plain_needs: NDArray[np.uint64]
    """What labels a document must have (see `path_routes`), here and for tests and keys."""
    test_low: NDArray[np.int32]
    """By code times `RELATIONS` plus relation: the entries with a literal to compare with."""
    test_literal: NDArray[np.float64]
    """The literal; a string stands as its place in the table of strings."""
    test_state: NDArray[np.int32]
    test_entry: NDArray[np.int32]
    test_needs: NDArray[np.uint64]
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
    key_needs: NDArray[np.uint64]
    code_has_strings: NDArray[np.bool_]
    code_has_numbers: NDArray[np.bool_]

    @classmethod
    def of(cls, arrays: Arrays) -> Trie:
        return cls(*(sealed(arrays[f"trie.{name}"]) for name in cls._fields))


class TrieBuilder:
    """Collects routes, and lays them out as arrays."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._states: dict[tuple[int, bool, int, int], int] = {(-1, False, 0, TRUE): 0}
        self._plain: list[tuple[int, int, int, int]] = []
        self._tests: list[tuple[int, float, int, int, int]] = []
        self._keys: defaultdict[tuple[int, Literal], list[tuple[int, int, int]]] = defaultdict(list)

    def add(self, position: int, route: Route) -> None:
        entry = 2 * position + (not route.exact)
        if route.comparison is None:
            if route.whole != FALSE:
                self._plain.append((route.code, route.whole, entry, route.needs))
            return
        state = 0
        for link in route.links:
            if link.condition == FALSE:
                return
            state = self._states.setdefault((state, *link), len(self._states))
        relation, literal = route.comparison
        if relation in (STRING_EQUAL, EQUAL):
            self._keys[route.code, literal].append((state, entry, route.needs))
        else:
            place = literal if isinstance(literal, float) else self._expressions.literal(literal)
            self._tests.append((route.code * RELATIONS + relation, place, state, entry, route.needs))

    def compiled(self) -> Arrays:
        """Everything but the hash table, which needs the table of strings (see `with_key_table`)."""
        return {f"trie.{name}": array for name, array in (self._held() | self._postings()).items()}

    def _held(self) -> Arrays:
        codes = len(self._expressions.codes)
        self._plain.sort()
        plain = np.array([each[:3] for each in self._plain], np.int32).reshape(-1, 3)
        tests = sorted(self._tests)
        run, state, entry = (np.array([test[at] for test in tests], np.int32) for at in (0, 2, 3))
        return {
            "states": np.array(list(self._states), np.int32),
            "plain_low": _low(plain[:, 0], codes),
            "plain_expression": plain[:, 1].copy(),
            "plain_entry": plain[:, 2].copy(),
            "plain_needs": np.array([needs for _, _, _, needs in self._plain], np.uint64),
            "test_low": _low(run, codes * RELATIONS),
            "test_literal": np.array([literal for _, literal, _, _, _ in tests], np.float64),
            "test_state": state,
            "test_entry": entry,
            "test_needs": np.array([needs for _, _, _, _, needs in tests], np.uint64),
        }

    def _postings(self) -> Arrays:
        keys = list(self._keys)
        held = [each for key in keys for each in self._keys[key]]
        postings = np.array([each[:2] for each in held], np.int32).reshape(-1, 2)
        low = np.zeros(len(keys) + 1, np.int32)
        np.cumsum([len(self._keys[key]) for key in keys], out=low[1:])
        code = np.array([code for code, _ in keys], np.int32)
        string = np.array(
            [self._expressions.literal(each) if isinstance(each, str) else -1 for _, each in keys], np.int32
        )
        codes = len(self._expressions.codes)
        has_strings, has_numbers = np.zeros(codes, np.bool_), np.zeros(codes, np.bool_)
        has_strings[code[string >= 0]] = True
        has_numbers[code[string < 0]] = True
        return {
            "key_code": code,
            "key_string": string,
            "key_number": np.array(
                [0.0 if isinstance(each, str) else each for _, each in keys], np.float64
            ).view(np.uint64),
            "key_low": low,
            "key_state": postings[:, 0].copy(),
            "key_entry": postings[:, 1].copy(),
            "key_needs": np.array([needs for _, _, needs in held], np.uint64),
            "code_has_strings": has_strings,
            "code_has_numbers": has_numbers,
        }


def with_key_table(arrays: Arrays) -> Arrays:
    """The arrays of a trie and its expressions, with the hash table of the trie's keys."""
    table = _hash_keys(
        arrays["trie.key_code"],
        arrays["trie.key_string"],
        arrays["trie.key_number"],
        sealed(arrays["strings.offsets"]),
        sealed(arrays["strings.bytes"]),
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
