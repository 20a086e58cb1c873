"""Reading one path by its pieces: the steps, and the predicates on them, with literals and names cut out.

Subscriptions that differ in names as well as in literals still have few forms of steps and few forms of
predicates, though nearly as many forms of whole paths as there are paths. So a text whose literals are cut
out already (see `shape`) is cut further: every name gives way to a mark, and so does every predicate.
What remains is the shape of the spine and of each predicate. All of them being known, the path is put
together without parsing; it takes two regular expressions over the text. One path parsed in full teaches the
shapes of all its pieces.

Rules of this module:

- A predicate means the same wherever it stands, and a spine the same whatever its predicates are. That holds
  for predicates without brackets of their own, so a path with nested ones is not read by pieces.
- A name is cut out only where the grammar can read nothing but a name: in ASCII, not before `(`, and no word
  that may be an operator. The words that are left are part of the shape, as is `*`.
- Shapes are learnt from an accepted text alone, and when its pieces put together again are what was parsed.
- No shape is learnt with a sign in it that might join what stands around it into something else: a colon, a
  brace, a quote, a digit, a union, anything outside ASCII.
- The number of shapes remembered is bounded, and so is the length of the texts.
"""

from __future__ import annotations

import re
from sys import intern
from typing import NamedTuple

from distributary.filters.path.parse import MAX_STEPS, OPERATOR_WORDS
from distributary.filters.path.pattern import EQUALITIES, EVERY_DOCUMENT, LocationPath, Predicate
from distributary.filters.path.template import Composition, PredicateTemplate, Spine, comparisons_within

CACHED_SPINES = 8192
CACHED_PREDICATES = 8192
LONGEST = 2 * MAX_STEPS
"""A text that is no longer has at most `MAX_STEPS` steps, for a sign stands between any two names."""

NUMBER_MARK, NEGATIVE_MARK, TEXT_MARK, NAME_MARK, PREDICATE_MARK = "\0", "\1", "\2", "\3", "\4"
LITERAL_MARK = re.compile(f"[{NUMBER_MARK}{NEGATIVE_MARK}{TEXT_MARK}]")
UNSAFE = re.compile(r"""['":{}0-9|$#%\[\]]|[^\0-~]""")

_cut_names = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*+(?! *+\())").split
_cut_predicates = re.compile(r"\[([^\[\]]*+)\]").split


class Pieces(NamedTuple):
    """A text cut into the shapes of its spine and its predicates, and its names, in the order written."""

    spine: str
    predicates: list[str]
    names: tuple[str, ...]


_spines: dict[str, Spine] = {}
_predicates: dict[str, PredicateTemplate] = {}


def pieces_of(text: str, key: str) -> Pieces | None:
    """The pieces of a text that has that key when its literals are cut out; None if it is not to be cut."""
    # The marks are not printable, so that each one found in the pieces was put there.
    if len(text) > LONGEST or not text.isprintable():
        return None
    parts = _cut_names(key)
    names: list[str] = []
    for place in range(1, len(parts), 2):
        name = parts[place]
        if name not in OPERATOR_WORDS:
            # A million filters have few different names between them.
            names.append(intern(name))
            parts[place] = NAME_MARK
    pieces = _cut_predicates("".join(parts))
    return Pieces(PREDICATE_MARK.join(pieces[::2]), pieces[1::2], tuple(names))


def composed(pieces: Pieces) -> tuple[Composition, tuple[int, ...]] | None:
    """The path that the pieces make up, and the places of strings compared as numbers; None if unknown."""
    spine = _spines.get(pieces.spine)
    if spine is None:
        return None
    try:
        parts = tuple([_predicates[predicate] for predicate in pieces.predicates])
    except KeyError:
        return None
    return Composition(spine, parts), _ordered(parts)


def learn(pieces: Pieces, branches: tuple[LocationPath, ...]) -> tuple[Composition, tuple[int, ...]] | None:
    """What `composed` gives for pieces whose text has been parsed; None when that tells nothing certain."""
    if len(branches) != 1 or any(map(UNSAFE.search, (pieces.spine, *pieces.predicates))):
        return None
    if branches[0] == EVERY_DOCUMENT:
        return None  # there is but one
    predicates = [predicate for step in branches[0].steps for predicate in step.predicates]
    spine = Spine(branches[0])
    if len(predicates) != len(pieces.predicates) or spine.names != pieces.spine.count(NAME_MARK):
        return None
    parts = tuple(map(_part, pieces.predicates, predicates))
    for shape, part in zip(pieces.predicates, parts, strict=True):
        if part.names != shape.count(NAME_MARK) or part.literals != len(LITERAL_MARK.findall(shape)):
            return None
    composition = Composition(spine, parts)
    literals = tuple(found.literal for each in predicates for found in comparisons_within(each))
    if composition.branches((*pieces.names, *literals)) != branches:
        return None
    _make_room(_spines, CACHED_SPINES)
    _spines[pieces.spine] = spine
    for shape, part in zip(pieces.predicates, parts, strict=True):
        _make_room(_predicates, CACHED_PREDICATES)
        _predicates[shape] = part
    return composition, _ordered(parts)


def forget_pieces() -> None:
    """Empty the caches."""
    _spines.clear()
    _predicates.clear()


def _part(shape: str, predicate: Predicate) -> PredicateTemplate:
    marks = LITERAL_MARK.findall(shape)
    ordered = tuple(
        place
        for place, (mark, comparison) in enumerate(zip(marks, comparisons_within(predicate), strict=False))
        if mark == TEXT_MARK and comparison.operator not in EQUALITIES
    )
    return PredicateTemplate(predicate, ordered)


def _ordered(parts: tuple[PredicateTemplate, ...]) -> tuple[int, ...]:
    """The places, among all literals, of strings that are compared as numbers, if they are numbers."""
    found: list[int] = []
    start = 0
    for part in parts:
        if part.ordered:
            found.extend([start + place for place in part.ordered])
        start += part.literals
    return tuple(found)


def _make_room(shapes: dict[str, Spine] | dict[str, PredicateTemplate], bound: int) -> None:
    if len(shapes) >= bound:
        shapes.clear()
