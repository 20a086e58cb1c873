"""The trie of all routes of a segment, as arrays, with what is held at its states.

A state is a chain of links (see `routes`); chains with equal beginnings share states. It is known by its
last link and the state before it, for routes are followed upwards. What a document asks about is:

* by label, routes that end in no value, as expressions on the whole document;
* by label and relation, ranges and inequalities at a state, ascending by literal;
* by label and literal, equalities at a state; a hash table finds them (see `keys`).

Each has an entry: twice the filter's position, plus one when what it finds has to be checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Flags, Floats, Ints, Words, kernel, sealed
from distributary.matching.index import AnyArrays, Arrays
from distributary.matching.path import expressions as kinds
from distributary.matching.path.expressions import Expressions
from distributary.matching.path.routes import EntryRoute, RouteLink, SecondRoute

Literal = str | float
RELATIONS = 8
"""How many ways to compare there are."""

BEFORE, DEEP, CODE, CONDITION = range(4)
"""The columns of states: the state before it, and of its last link, whether it is deep, its label's code, and
the expression that must hold for its node."""

LEG_COLUMNS = 7
"""How many columns `joints` has for each of the two values of a filter."""


class Trie(NamedTuple):
    """The arrays, as the kernels read them. A range of what belongs to i is `low[i]:low[i + 1]`."""

    states: Ints
    """By state: BEFORE, DEEP, CODE and CONDITION. State 0 is the document."""
    plain_low: Ints
    """By code: the entries of routes that end in no value."""
    plain_expression: Ints
    plain_entry: Ints
    plain_needs: Words
    """What labels a document must have (see `routes`), here and for tests and keys."""
    test_low: Ints
    """By code times `RELATIONS` plus relation: the entries with a literal to compare with."""
    test_literal: Floats
    """The literal; a string stands as its place in the table of strings."""
    test_state: Ints
    test_entry: Ints
    test_needs: Words
    key_code: Ints
    key_string: Ints
    """By key: its string's place in the table of strings, -1 when it is a number."""
    key_number: Words
    """By key: the bits of its number."""
    key_low: Ints
    """By key: its postings."""
    key_state: Ints
    key_entry: Ints
    key_needs: Words
    code_has_strings: Flags
    code_has_numbers: Flags

    @classmethod
    def of(cls, arrays: AnyArrays) -> Trie:
        """The trie in a segment's arrays."""
        return cls(*(sealed(arrays[f"trie.{name}"]) for name in cls._fields))


class TrieBuilder:
    """Collects routes, and lays them out as arrays."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._states: dict[tuple[int, bool, int, int], int] = {(-1, False, 0, kinds.TRUE): 0}
        self._plain: list[tuple[int, int, int, int]] = []
        self._tests: list[tuple[int, float, int, int, int]] = []
        self._keys: defaultdict[tuple[int, Literal], list[tuple[int, int, int]]] = defaultdict(list)
        self._joints: dict[int, list[tuple[Any, ...]]] = {}

    def add(self, position: int, route: EntryRoute) -> None:
        """Hold a route of the filter at that position; a route that no document can take is left out."""
        entry = 2 * position + (not route.exact)
        if route.comparison is None:
            if route.whole != kinds.FALSE:
                self._plain.append((route.code, route.whole, entry, route.needs))
            return
        if any(link.condition == kinds.FALSE for link in route.links):
            return
        state = self._state(0, route.links)
        relation, literal = route.comparison
        if relation in (kinds.STRING_EQUAL, kinds.EQUAL):
            self._keys[route.code, literal].append((state, entry, route.needs))
        else:
            place = literal if isinstance(literal, float) else self._expressions.literal(literal)
            self._tests.append((route.code * RELATIONS + relation, place, state, entry, route.needs))
        if route.second is not None:
            self._joints[position] = self._legs(state, route, route.second)

    def _state(self, state: int, links: Sequence[RouteLink]) -> int:
        """The state at the end of a chain that begins at a state."""
        for link in links:
            state = self._states.setdefault((state, *link), len(self._states))
        return state

    def _legs(self, state: int, route: EntryRoute, second: SecondRoute) -> list[tuple[Any, ...]]:
        """The two values of a filter, as `joints` names their columns; of a key its label and literal."""
        assert route.comparison is not None
        joint = self._state(0, route.links[: second.shared])
        legs = []
        for end, links, comparison in (
            (state, route.links[second.shared :], route.comparison),
            (self._state(joint, second.links), second.links, second.comparison),
        ):
            code = links[-1].code if links else route.links[second.shared - 1].code
            relation, literal = comparison
            key = (code, literal) if relation in (kinds.STRING_EQUAL, kinds.EQUAL) else None
            if key is not None:
                self._keys[key]  # there is one, even if no filter is entered by it
            place, deep = self._expressions.literal(literal), any(link.deep for link in links)
            legs.append((end, code, relation, place, len(links), deep, key))
        return legs

    def joints(self, filters: int) -> Arrays:
        """The filters with two values, for `joints`; `filters` is how many there are in all."""
        numbers = {key: number for number, key in enumerate(self._keys)}
        of_filter = np.full(filters, -1, INT)
        of_filter[list(self._joints)] = np.arange(len(self._joints), dtype=INT)
        legs = [(*leg[:-1], numbers.get(leg[-1], -1)) for legs in self._joints.values() for leg in legs]
        return {
            "joints.of_filter": of_filter,
            "joints.legs": np.array(legs, INT).reshape(-1, 2, LEG_COLUMNS),
        }

    def compiled(self) -> Arrays:
        """The arrays of the trie and of its expressions. Neither takes any more after this."""
        strings = [self._expressions.literal(text) if isinstance(text, str) else -1 for _, text in self._keys]
        table = self._expressions.compiled()
        arrays = self._held() | self._postings(np.array(strings, np.int32))
        return {**table, **{f"trie.{name}": array for name, array in arrays.items()}}

    def _held(self) -> Arrays:
        """Routes without a value, and ranges and inequalities."""
        codes = len(self._expressions.codes)
        plain = _columns("plain", sorted(self._plain), low=INT, expression=INT, entry=INT, needs=WORD)
        tests = _columns(
            "test", sorted(self._tests), low=INT, literal=np.float64, state=INT, entry=INT, needs=WORD
        )
        # The first column is ascending; what is kept of it is where the run of each number begins.
        plain["plain_low"] = _low(plain["plain_low"], codes)
        tests["test_low"] = _low(tests["test_low"], codes * RELATIONS)
        return {"states": np.array(list(self._states), INT), **plain, **tests}

    def _postings(self, string: Ints) -> Arrays:
        """The keys of equalities, given the places of their strings, and what is held under each."""
        held = [each for postings in self._keys.values() for each in postings]
        code = np.array([code for code, _ in self._keys], INT)
        numbers = [0.0 if isinstance(literal, str) else literal for _, literal in self._keys]
        low = np.zeros(len(self._keys) + 1, INT)
        np.cumsum([len(postings) for postings in self._keys.values()], out=low[1:])
        has_strings, has_numbers = np.zeros((2, len(self._expressions.codes)), np.bool_)
        has_strings[code[string >= 0]] = True
        has_numbers[code[string < 0]] = True
        return {
            "key_code": code,
            "key_string": string,
            "key_number": np.array(numbers, np.float64).view(WORD),
            "key_low": low,
            **_columns("key", held, state=INT, entry=INT, needs=WORD),
            "code_has_strings": has_strings,
            "code_has_numbers": has_numbers,
        }


INT, WORD = np.int32, np.uint64


def _columns(prefix: str, rows: Sequence[tuple[Any, ...]], **types: type[np.generic]) -> Arrays:
    """The columns of the rows, each under its name and of its type."""
    return {
        f"{prefix}_{name}": np.array([row[at] for row in rows], kind)
        for at, (name, kind) in enumerate(types.items())
    }


def _low(places: Ints, count: int) -> Ints:
    """Where the run of each number from 0 to `count` begins in an ascending array."""
    low: Ints = np.searchsorted(places, np.arange(count + 1)).astype(np.int32)
    return low


@kernel
def mixed_key(code: int, value: np.uint64) -> np.uint64:
    """The hash of a key: a label's code, and the bits of a number or the hash of a string."""
    return (value ^ (np.uint64(code) * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xBF58476D1CE4E5B9)
