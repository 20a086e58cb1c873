"""Bounds: what can be said about a whole path of a summary at once, in a few machine words.

The classes of a summary with the same labels from the root down form a *path*; documents have a few dozen.
An expression (see `expressions`) without values may hold for all classes of a path, for none, for some
or not for some, as far as that can be told from its operands' bounds and from which paths every class of the
path above has children in. Four masks with a bit for each path say so. Where they decide, no class needs to
be looked at; a path with a single class is always decided as far as its operands are.

Summaries with more than 64 paths are not bounded: nothing is decided for them here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.kernel import Flags, Ints, Words, kernel, uncounted
from distributary.matching.path import expressions as kinds
from distributary.matching.path.evaluate import order_by_code
from distributary.matching.path.labels import LabelCodes

ALL, NONE, SOME, NOT_ALL, STAMP = range(5)
"""The masks: it holds for all classes of a path; for none; for at least one; fails for at least one."""


OWN, WILDCARD, PARENT, DEPTH, PATH = range(5)
"""The columns of a summary's classes: own code, wildcard's code, parent, depth, and path."""


class SummaryPaths(NamedTuple):
    """The paths of one summary."""

    size: int
    """How many there are; 0 when they are too many."""
    label: Ints
    parent: Ints
    """By path: the path above, -1 for the document's."""
    order: Ints
    low: Ints
    """The paths that a step of code c accepts are `order[low[c]:low[c + 1]]`."""
    everywhere: Flags
    """By path: whether every class of the path above has a child in this one."""
    single: np.uint64
    """The paths with a single class."""


class Bounds(NamedTuple):
    """The masks worked out for some paths, by expression; they count when their STAMP is that of the paths.

    Stamp and masks stand side by side, for what looking one up costs is fetching it from memory.
    """

    masks: Words
    stack: Ints
    paths: SummaryPaths
    stamp: np.uint64


@kernel
def lay_out(label: Ints, parent: Ints, codes: LabelCodes) -> tuple[Ints, SummaryPaths]:
    """A summary's classes, with the columns OWN to PATH, and its paths."""
    count = len(label)
    classes = np.empty((count, 5), np.int32)
    path_parent, path_label = np.full(count, -1, np.int32), np.empty(count, np.int32)
    members, above = np.zeros(count, np.int32), np.zeros(count, np.int32)
    last_above = np.full(count, -1, np.int32)
    size = 2
    while size < 2 * count:
        size *= 2
    table = np.full(size, -1, np.int32)  # finds a path by its label and the path above
    paths = 0
    for each in range(count):
        upper = classes[parent[each], PATH] if each else -1
        mixed = (np.uint64(upper + 1) << np.uint64(32)) + np.uint64(label[each] + 1)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        place = np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))
        path = table[place]
        while path >= 0 and (path_label[path] != label[each] or path_parent[path] != upper):
            place = (place + 1) & (size - 1)
            path = table[place]
        if path < 0:
            path = table[place] = paths
            paths += 1
            path_label[path], path_parent[path] = label[each], upper
        members[path] += 1
        if last_above[path] != parent[each]:
            last_above[path] = parent[each]
            above[path] += 1
        classes[each, OWN], classes[each, WILDCARD] = codes.own[label[each]], codes.wildcard[label[each]]
        classes[each, PARENT], classes[each, PATH] = parent[each], path
        classes[each, DEPTH] = classes[parent[each], DEPTH] + 1 if each else 0
    everywhere = np.zeros(paths, np.bool_)
    single = np.uint64(0)
    for path in range(paths):
        everywhere[path] = path > 0 and above[path] == members[path_parent[path]]
        if members[path] == 1 and path < 64:
            single |= np.uint64(1) << np.uint64(path)
    told_apart = paths if paths <= 64 else 0
    given = SummaryPaths(
        told_apart, path_label[:paths], path_parent[:paths], members, members, everywhere, single
    )
    ordered = _in_order(given, codes, classes) if told_apart else given
    order, low = order_by_code(ordered.label, codes)
    return classes, SummaryPaths(
        told_apart, ordered.label, ordered.parent, order, low, ordered.everywhere, ordered.single
    )


@kernel
def _in_order(paths: SummaryPaths, codes: LabelCodes, classes: Ints) -> SummaryPaths:
    """The paths in an order that does not depend on how they were met: below each path, by label and flags.

    So documents that have the same paths give them the same numbers (see `workspace`).
    """
    size = paths.size
    rank, path_of = np.full(size, -1, np.int32), np.zeros(size, np.int32)
    label, parent = np.empty(size, np.int32), np.full(size, -1, np.int32)
    everywhere, single = np.zeros(size, np.bool_), np.uint64(0)
    rank[0], ranked, above = 0, 1, 0
    while above < size:
        # The path below this one that comes next, until there is none.
        best, least = -1, 0
        for path in range(size):
            if rank[path] < 0 and paths.parent[path] == path_of[above]:
                code = np.int64(codes.own[paths.label[path]] + 1) * 4 + codes.wildcard[paths.label[path]]
                alone = np.int64((paths.single >> np.uint64(path)) & np.uint64(1))
                key = (code * 2 + np.int64(paths.everywhere[path])) * 2 + alone
                if best < 0 or key < least:
                    best, least = path, key
        if best < 0:
            above += 1
        else:
            rank[best], path_of[ranked], parent[ranked] = ranked, best, above
            ranked += 1
    for place in range(size):
        path = path_of[place]
        label[place], everywhere[place] = paths.label[path], paths.everywhere[path]
        single |= ((paths.single >> np.uint64(path)) & np.uint64(1)) << np.uint64(place)
    for each in range(len(classes)):
        classes[each, PATH] = rank[classes[each, PATH]]
    return SummaryPaths(size, label, parent, paths.order, paths.low, everywhere, single)


@uncounted
def work_out_bounds(wanted: int, bounds: Bounds, rows: Ints) -> None:
    """Work out the masks of an expression, and first those of its operands."""
    masks, stack, stamp = bounds.masks, bounds.stack, bounds.stamp
    every = ~np.uint64(0)
    stack[0] = wanted
    depth = 1
    while depth:
        expression = stack[depth - 1]
        kind = rows[expression, kinds.KIND]
        first, second = rows[expression, kinds.FIRST], rows[expression, kinds.SECOND]
        if masks[expression, STAMP] == stamp:
            depth -= 1
            continue
        # First the operands: all but the first of CHILD and DESCENDANT, a label, are expressions.
        below = kind in (kinds.CHILD, kinds.DESCENDANT)
        if kind in (kinds.BOTH, kinds.EITHER, kinds.NEGATED) and masks[first, STAMP] != stamp:
            stack[depth] = first
            depth += 1
            continue
        if (below or kind in (kinds.BOTH, kinds.EITHER)) and masks[second, STAMP] != stamp:
            stack[depth] = second
            depth += 1
            continue
        depth -= 1
        out = masks[expression]
        out[STAMP] = stamp
        if below:
            _look_below(first, kind == kinds.DESCENDANT, masks[second], bounds.paths, out)
        elif kind == kinds.NEGATED:
            one = masks[first]
            out[ALL], out[NONE], out[SOME], out[NOT_ALL] = one[NONE], one[ALL], one[NOT_ALL], one[SOME]
        elif kind == kinds.BOTH:
            one, other = masks[first], masks[second]
            out[ALL], out[NONE] = one[ALL] & other[ALL], one[NONE] | other[NONE]
            out[SOME] = (one[SOME] & other[ALL]) | (one[ALL] & other[SOME])
            out[NOT_ALL] = one[NOT_ALL] | other[NOT_ALL]
        elif kind == kinds.EITHER:
            one, other = masks[first], masks[second]
            out[ALL], out[NONE] = one[ALL] | other[ALL], one[NONE] & other[NONE]
            out[SOME] = one[SOME] | other[SOME]
            out[NOT_ALL] = (one[NOT_ALL] & other[NONE]) | (one[NONE] & other[NOT_ALL])
        else:
            holds = every if kind == kinds.TRUE else np.uint64(0)
            out[ALL], out[NONE], out[SOME], out[NOT_ALL] = holds, ~holds, holds, ~holds
        single = bounds.paths.single
        out[ALL] |= out[SOME] & single
        out[NONE] |= out[NOT_ALL] & single


@uncounted
def _look_below(code: int, deep: bool, one: Words, paths: SummaryPaths, out: Words) -> None:
    """The masks of having a child (or descendant) of a label for which the masks are `one`."""
    out[ALL], out[SOME], out[NOT_ALL] = np.uint64(0), np.uint64(0), np.uint64(0)
    out[NONE] = ~np.uint64(0)
    for at in range(paths.low[code], paths.low[code + 1]):
        path = paths.order[at]
        bit = np.uint64(1) << np.uint64(path)
        if one[NONE] & bit:
            continue
        some, every, below = one[SOME] & bit != 0, one[ALL] & bit != 0, path
        while below > 0:
            upper = paths.parent[below]
            upper_bit = np.uint64(1) << np.uint64(upper)
            out[NONE] &= ~upper_bit
            every = every and paths.everywhere[below]
            if every:
                out[ALL] |= upper_bit
            if some:
                out[SOME] |= upper_bit
            below = upper if deep else 0
    out[NOT_ALL] |= out[NONE]
