"""Faults on the links of a node, for trials: it is cut off from others, frames are dropped, doubled or late.

Only a node whose file has a table `[faults]` has them, and none until it is asked for some
(`POST /faults` where it tells its status), in JSON:

    {"cut": ["node-2"], "cut_to": ["node-3"], "cut_from": ["*"],
     "drop": 0.01, "duplicate": 0.01, "delay": 0.1, "delay_ms": 300}

Rules:

- What is asked replaces what was asked before: `{}` ends all faults. They end with the process, too.
- A node that is cut off is told nothing: what is sent is gone, no connection can be made, and silence ends
  those that there are. `cut` is both ways, `cut_to` what is sent, `cut_from` what comes; `*` is every node.
- `drop`, `duplicate` and `delay` are probabilities of frames that are sent; a late frame comes up to
  `delay_ms` later, and those behind it not before it.
- Each fault counts how often it fired, among the counts of the links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, json

from distributary.errors import DistributaryError
from distributary.overlay.node import Address

ALL = "*"
"""Stands for every node."""

Probability = Annotated[float, Meta(ge=0, le=1)]


class FaultRequest(Struct, forbid_unknown_fields=True):
    """The faults that are wanted from now on."""

    cut: tuple[str, ...] = ()
    cut_to: tuple[str, ...] = ()
    cut_from: tuple[str, ...] = ()
    drop: Probability = 0.0
    duplicate: Probability = 0.0
    delay: Probability = 0.0
    delay_ms: Annotated[float, Meta(ge=0)] = 100.0


class LinkFaults:
    """The faults of one node's links.

    >>> faults = LinkFaults(seed=1, address_of=int)
    >>> faults.ask(b'{"cut_to": ["2"], "duplicate": 1}')
    >>> faults.pauses(2), faults.pauses(3), faults.hears(2)
    ((), (0.0, 0.0), True)
    >>> dict(faults.fired)
    {'cut': 1, 'duplicate': 1}
    """

    def __init__(self, seed: int, address_of: Callable[[str], Address]) -> None:
        self.fired: Counter[str] = Counter()
        """How often each kind of fault has happened."""
        self.asked = FaultRequest()
        self._address_of = address_of
        self._random = Random(f"{seed}/faults")
        self._cut_to = self._cut_from = frozenset[Address | str]()

    def ask(self, text: bytes) -> None:
        """Have these faults from now on, and no others; DistributaryError when it is no such request."""
        try:
            asked = json.decode(text, type=FaultRequest)
        except DecodeError as error:
            raise DistributaryError(f"these are no faults: {error}") from error
        self.asked = asked
        self._cut_to = self._addresses((*asked.cut, *asked.cut_to))
        self._cut_from = self._addresses((*asked.cut, *asked.cut_from))

    def reaches(self, to: Address) -> bool:
        """Whether anything sent to a node arrives there."""
        return not (self._cut_to and (to in self._cut_to or ALL in self._cut_to))

    def hears(self, sender: Address) -> bool:
        """Whether anything of a node arrives here; counted if it does not."""
        if self._cut_from and (sender in self._cut_from or ALL in self._cut_from):
            self.fired["cut"] += 1
            return False
        return True

    def pauses(self, to: Address) -> tuple[float, ...]:
        """What becomes of a frame: how many seconds late it comes, for each time that it comes."""
        if not self.reaches(to):
            self.fired["cut"] += 1
            return ()
        asked = self.asked
        if self._fires("drop", asked.drop):
            return ()
        late = asked.delay_ms / 1000 * self._random.random() if self._fires("delay", asked.delay) else 0.0
        return (late, late) if self._fires("duplicate", asked.duplicate) else (late,)

    def _fires(self, kind: str, probability: float) -> bool:
        fires = probability > 0 and self._random.random() < probability
        if fires:
            self.fired[kind] += 1
        return fires

    def _addresses(self, names: Iterable[str]) -> frozenset[Address | str]:
        return frozenset(ALL if name == ALL else self._address_of(name) for name in names)
