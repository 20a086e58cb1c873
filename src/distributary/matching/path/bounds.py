"""Bounds: what can be said about a whole path of a summary at once, in a few machine words.

The classes of a summary with the same labels from the root down form a *path*; documents have a few dozen.
An expression (see `path_expressions`) without values may hold for all classes of a path, for none, for some
or not for some, as far as that can be told from its operands' bounds and from which paths every class of the
path above has children in. Four masks with a bit for each path say so. Where they decide, no class needs to
be looked at; a path with a single class is always decided as far as its operands are.

Summaries with more than 64 paths are not bounded: nothing is decided for them here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import kernel
from distributary.matching.path.expressions import BOTH, CHILD, DESCENDANT, EITHER, NEGATED, TRUE, planted

ALL, NONE, SOME, NOT_ALL, STAMP = range(5)
"""The masks: it holds for all classes of a path; for none; for at least one; fails for at least one."""


class Paths(NamedTuple):
    """The paths of one summary."""

    size: int
    """How many there are; 0 when they are too many."""
    row: NDArray[np.int32]
    """By path: its label's code, its wildcard's, its parent and its depth."""
    order: NDArray[np.int32]
    low: NDArray[np.int32]
    """The paths that a step of code c accepts are `order[low[c]:low[c + 1]]`."""
    everywhere: NDArray[np.bool_]
    """By path: whether every class of the path above has a child in this one."""
    single: np.uint64
    """The paths with a single class."""


class Bounds(NamedTuple):
    """The masks worked out for one summary, by expression; they count when their STAMP is the summary's.

    Stamp and masks stand side by side, for what looking one up costs is fetching it from memory.
    """

    masks: NDArray[np.uint64]
    stack: NDArray[np.int32]
    paths: Paths
    stamp: np.uint64


@kernel
def lay_out(
    label: NDArray[np.int32],
    parent: NDArray[np.int32],
    recode: NDArray[np.int32],
    groups: NDArray[np.int8],
    codes: int,
) -> tuple[NDArray[np.int32], Paths]:
    """A summary's classes (own code, wildcard's code, parent, depth, path), and its paths."""
    count = len(label)
    classes = np.empty((count, 5), np.int32)
    path_parent, path_label = np.full(count, -1, np.int32), np.empty(count, np.int32)
    members, above = np.zeros(count, np.int32), np.zeros(count, np.int32)
    last_above = np.full(count, -1, np.int32)
    first_below, next_path = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    paths = 0
    for each in range(count):
        path = -1
        if each:
            path = first_below[classes[parent[each], 4]]
            while path >= 0 and path_label[path] != label[each]:
                path = next_path[path]
        if path < 0:
            path = paths
            paths += 1
            path_label[path] = label[each]
            if each:
                upper = classes[parent[each], 4]
                path_parent[path] = upper
                next_path[path] = first_below[upper]
                first_below[upper] = path
        members[path] += 1
        if last_above[path] != parent[each]:
            last_above[path] = parent[each]
            above[path] += 1
        classes[each, 0], classes[each, 1] = recode[label[each]], groups[label[each]]
        classes[each, 2], classes[each, 3], classes[each, 4] = parent[each], 0, path
        if each:
            classes[each, 3] = classes[parent[each], 3] + 1
    everywhere = np.zeros(paths, np.bool_)
    row = np.empty((paths, 4), np.int32)
    single = np.uint64(0)
    for path in range(paths):
        upper = path_parent[path]
        row[path, 0], row[path, 1], row[path, 2] = recode[path_label[path]], groups[path_label[path]], upper
        row[path, 3] = row[upper, 3] + 1 if path else 0
        everywhere[path] = path > 0 and above[path] == members[upper]
        if members[path] == 1 and path < 64:
            single |= np.uint64(1) << np.uint64(path)
    tree = planted(path_label[:paths], path_parent[:paths], recode, groups, codes)
    size = paths if paths <= 64 else 0
    return classes, Paths(size, row, tree.order, tree.low, everywhere, single)


@kernel
def work_out_bounds(wanted: int, bounds: Bounds, rows: NDArray[np.int32]) -> None:
    """Work out the masks of an expression, and first those of its operands."""
    masks, stack, stamp = bounds.masks, bounds.stack, bounds.stamp
    every = ~np.uint64(0)
    stack[0] = wanted
    depth = 1
    while depth:
        expression = stack[depth - 1]
        kind, first, second = rows[expression, 0], rows[expression, 1], rows[expression, 2]
        if masks[expression, STAMP] == stamp:
            depth -= 1
            continue
        if kind in (BOTH, EITHER, NEGATED) and masks[first, STAMP] != stamp:
            stack[depth] = first
            depth += 1
            continue
        if kind in (BOTH, EITHER, CHILD, DESCENDANT) and masks[second, STAMP] != stamp:
            stack[depth] = second
            depth += 1
            continue
        depth -= 1
        out = masks[expression]
        out[STAMP] = stamp
        if kind in (CHILD, DESCENDANT):
            _look_below(first, kind == DESCENDANT, masks[second], bounds.paths, out)
        elif kind == NEGATED:
            one = masks[first]
            out[ALL], out[NONE], out[SOME], out[NOT_ALL] = one[NONE], one[ALL], one[NOT_ALL], one[SOME]
        elif kind == BOTH:
            one, other = masks[first], masks[second]
            out[ALL], out[NONE] = one[ALL] & other[ALL], one[NONE] | other[NONE]
            out[SOME] = (one[SOME] & other[ALL]) | (one[ALL] & other[SOME])
            out[NOT_ALL] = one[NOT_ALL] | other[NOT_ALL]
        elif kind == EITHER:
            one, other = masks[first], masks[second]
            out[ALL], out[NONE] = one[ALL] | other[ALL], one[NONE] & other[NONE]
            out[SOME] = one[SOME] | other[SOME]
            out[NOT_ALL] = (one[NOT_ALL] & other[NONE]) | (one[NONE] & other[NOT_ALL])
        else:
            holds = every if kind == TRUE else np.uint64(0)
            out[ALL], out[NONE], out[SOME], out[NOT_ALL] = holds, ~holds, holds, ~holds
        single = bounds.paths.single
        out[ALL] |= out[SOME] & single
        out[NONE] |= out[NOT_ALL] & single


@kernel
def _look_below(
    code: int, deep: bool, one: NDArray[np.uint64], paths: Paths, out: NDArray[np.uint64]
) -> None:
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
            upper = paths.row[below, 2]
            upper_bit = np.uint64(1) << np.uint64(upper)
            out[NONE] &= ~upper_bit
            every = every and paths.everywhere[below]
            if every:
                out[ALL] |= upper_bit
            if some:
                out[SOME] |= upper_bit
            below = upper if deep else 0
    out[NOT_ALL] |= out[NONE]
