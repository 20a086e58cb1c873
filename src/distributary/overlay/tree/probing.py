"""Measuring how far other nodes of a tree are: before one is taken for a parent, and to weigh changes.

Rules:

- A probe is answered at once, with what the node asked tells of itself (`answer_with`). The round trip is
  the time until the answer comes.
- Those who do not answer in time are not among the answers.

Cost: two messages a node probed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from distributary.overlay.node import Address, Node
from distributary.overlay.tree.messages import TreeProbe, TreeProbeReply

Told = tuple[float | None, ...]


class ProbeResult(NamedTuple):
    """The answer to a probe."""

    seconds: float
    """There and back."""
    told: Told
    """What the node tells of itself."""


ProbeResults = Mapping[Address, ProbeResult]


@dataclass
class _Round:
    """Probes that were sent together."""

    sent: float
    missing: set[Address]
    then: Callable[[ProbeResults], None]
    answers: dict[Address, ProbeResult] = field(default_factory=dict)


class TreeProber:
    """Probes of one node, and its answers to those of others."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._describe: Callable[[Address], Told] = lambda prober: ()
        self._rounds: dict[int, _Round] = {}
        self._number = 0
        node.handle(TreeProbe, self._probed)
        node.handle(TreeProbeReply, self._answered)
        node.at_alarm("tree probes", self._end)

    def answer_with(self, describe: Callable[[Address], Told]) -> None:
        """Have this say what the node tells of itself to one who probes it; nothing otherwise."""
        self._describe = describe

    def probe(self, others: Iterable[Address], then: Callable[[ProbeResults], None], wait: float) -> None:
        """Have this called with the answers of others, when all have come or so many seconds are over."""
        missing = set(others) - {self._node.address}
        if not missing:
            then({})
            return
        self._number += 1
        self._rounds[self._number] = _Round(self._node.now, missing, then)
        for other in sorted(missing):
            self._node.send(other, TreeProbe(self._number))
        self._node.wake_after(wait, "tree probes", self._number)

    def _probed(self, message: TreeProbe, sender: Address) -> None:
        self._node.send(sender, TreeProbeReply(message.number, self._describe(sender)))

    def _answered(self, message: TreeProbeReply, sender: Address) -> None:
        waiting = self._rounds.get(message.number)
        if waiting is None or sender not in waiting.missing:
            return
        waiting.missing.discard(sender)
        waiting.answers[sender] = ProbeResult(self._node.now - waiting.sent, message.told)
        if not waiting.missing:
            self._end(message.number)

    def _end(self, number: int) -> None:
        waiting = self._rounds.pop(number, None)
        if waiting is not None:
            waiting.then(waiting.answers)
