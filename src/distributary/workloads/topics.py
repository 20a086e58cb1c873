"""Topics as the topic paper evaluates them: random values at every level, wildcards anywhere but first.

Section IV.B.1: each level takes one of 50 values, and each subscription has one wildcard. With `shapes`,
subscriptions instead draw from that many random shapes (depth, wildcard levels, open or closed end), which
is the hard case for algorithms that look up one shape at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from distributary.model import Event, Subscription
from distributary.workloads.options import require

Shape = tuple[int, tuple[int, ...], bool]
"""Depth, the levels that are wildcards, and whether the end is closed."""


def subscriptions(
    count: int,
    *,
    seed: int,
    levels: int = 7,
    values: int = 50,
    wildcards: int = 1,
    shapes: int | None = None,
) -> Iterator[Subscription]:
    """Random topic subscriptions, all from different subscribers.

    >>> next(subscriptions(1, seed=1, levels=3)).topic
    'a36/*/c4'
    """
    require("wildcards", wildcards, 0, max(0, levels - 1))
    random = Random(seed)
    names = _names(levels, values)
    drawn = None if shapes is None else random_shapes(shapes, random, levels)
    for number in range(count):
        if drawn is None:
            depth, wild, closed = levels, tuple(random.sample(range(1, levels), wildcards)), False
        else:
            depth, wild, closed = random.choice(drawn)
        topic = [random.choice(level) for level in names[:depth]]
        for level in wild:
            topic[level] = "*"
        text = "/".join(topic) + ("/#" if closed else "")
        yield Subscription(f"s{number}", f"subscriber{number}", topic=text)


def events(count: int, *, seed: int, levels: int = 7, values: int = 50) -> Iterator[Event]:
    """Events with random topics of full depth.

    >>> next(events(1, seed=1, levels=3)).topic
    'a8/b36/c48'
    """
    random = Random(seed)
    names = _names(levels, values)
    for number in range(count):
        yield Event(f"e{number}", topic="/".join([random.choice(level) for level in names]))


def random_shapes(count: int, random: Random, levels: int) -> list[Shape]:
    """Distinct shapes of at most `levels` levels; ValueError when there are not that many."""
    possible = 2 * (2**levels - 1)
    if count > possible:
        raise ValueError(f"{levels} levels have {possible} shapes, not {count}")
    chosen = random.sample(range(possible), count)
    return [_shape(number) for number in chosen]


def _shape(number: int) -> Shape:
    """Shapes numbered by depth: 2 of depth 1, 4 of depth 2, and so on; twice the masks of d - 1 levels."""
    depth = 1
    while number >= 2**depth:
        number -= 2**depth
        depth += 1
    mask, closed = divmod(number, 2)
    wild = tuple(level for level in range(1, depth) if mask >> (level - 1) & 1)
    return depth, wild, bool(closed)


def _names(levels: int, values: int) -> list[list[str]]:
    require("levels", levels, 1)
    require("values", values, 1)
    return [[f"{chr(ord('a') + level % 26)}{value}" for value in range(values)] for level in range(levels)]
