"""The disks of simulated nodes: a write takes a moment, and a crash loses the end of what was being written.

Rules:

- A node's stores are written one group after another. What the node wants done after a store waits until the
  group is on the disk (`overlay.node`).
- A crash in the midst of a group keeps a beginning of it, by chance none or all: a journal is written from
  front to back, and a torn record at its end is not read.
- What is on a disk outlives its node. `wipe` makes a disk empty, as a lost one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from distributary.overlay.node import Address, Message, Store

WRITE_TIME = 0.002
"""Seconds that a group of writes takes: a solid-state disk with its cache flushed."""

HeldEffects = tuple[Any, ...]
"""What a node wants done once its writes are safe, as the simulator carries it out."""


class Disks:
    """The disks of all nodes.

    >>> disks = Disks(Random(1))
    >>> _ = disks.begin(7, [Store("term", "first")])
    >>> disks.hold(7, ("what waits",))
    >>> disks.of(7), disks.end(7), disks.of(7)
    ({}, [('what waits',)], {'term': 'first'})
    """

    def __init__(self, random: Random) -> None:
        self.busy: dict[Address, list[Store]] = {}
        """What is being written, by node."""
        self.lost = 0
        """Writes that crashes have lost."""
        self._random = random
        self._stored: dict[Address, dict[str, Message]] = {}
        self._held: dict[Address, list[HeldEffects]] = {}

    def of(self, address: Address) -> Mapping[str, Message]:
        """What is on the disk of a node, by name, in the order in which the names were first stored."""
        return dict(self._stored.get(address, {}))

    def begin(self, address: Address, stores: list[Store]) -> float:
        """Begin to write; returns how many seconds it takes."""
        self.busy[address] = stores
        return WRITE_TIME

    def hold(self, address: Address, effects: HeldEffects) -> None:
        """Keep what is to be done once the writes under way are safe."""
        self._held.setdefault(address, []).append(effects)

    def end(self, address: Address) -> list[HeldEffects]:
        """The writes under way are safe; returns what waited for them."""
        self._keep(address, self.busy.pop(address))
        return self._held.pop(address, [])

    def crash(self, address: Address) -> int:
        """Keep a beginning of the writes under way, and drop what waited; returns how many were lost."""
        writing = self.busy.pop(address, [])
        self._held.pop(address, None)
        kept = self._random.randint(0, len(writing)) if writing else 0
        self._keep(address, writing[:kept])
        self.lost += len(writing) - kept
        return len(writing) - kept

    def wipe(self, address: Address) -> None:
        """Empty a disk."""
        self._stored.pop(address, None)

    def _keep(self, address: Address, stores: list[Store]) -> None:
        stored = self._stored.setdefault(address, {})
        for name, value in stores:
            if value is None:
                stored.pop(name, None)
            else:
                stored[name] = value
