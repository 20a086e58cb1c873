"""Selection of the changes that nodes propose: what the roots of trees do (003, 5.4.5).

Rules, for every period:

- Each root collects proposals for a window, and passes the best on to the first root. That one waits a window
  longer, and orders the operators' hosts to carry out the best of all.
- Several are carried out if they are independent: no node is touched by two, as the host of what moves, as
  its destination, or as the host of what it reads or is read by. So no node is given more than was reckoned
  with, and what one is worth does not depend on another, but for sources' links.

Cost: a message for each proposal and root on its way, one for each order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from distributary.overlay.node import Address, Node


class ChangeProposal(NamedTuple):
    """The best change that a node has found."""

    period: int
    benefit: float
    lead: Address
    """The first root, which decides."""
    host: Address
    rule: str
    operator: str
    moves: tuple[tuple[str, Address], ...]
    """Operators and their destinations; of a division, the replicas."""
    touched: tuple[Address, ...]
    """The nodes that are concerned."""


class ChangeOrder(NamedTuple):
    """A proposal that is to be carried out by the operator's host."""

    rule: str
    operator: str
    moves: tuple[tuple[str, Address], ...]


def select_proposals(proposals: Iterable[ChangeProposal], most: int) -> list[ChangeProposal]:
    """The best, and the best of those that are independent of it, and so on; of equal ones, always the same.

    >>> one, two, three = (
    ...     ChangeProposal(1, benefit, 9, host, "migration", f"o{host}", ((f"o{host}", to),), (host, to))
    ...     for benefit, host, to in ((5.0, 1, 2), (7.0, 2, 3), (1.0, 4, 5))
    ... )
    >>> [proposal.operator for proposal in select_proposals([one, two, three], most=17)]
    ['o2', 'o4']
    """
    found: list[ChangeProposal] = []
    taken: set[Address] = set()
    for proposal in sorted(proposals, key=lambda one: (one.benefit, one.operator), reverse=True):
        if len(found) < most and taken.isdisjoint(proposal.touched):
            taken.update(proposal.touched)
            found.append(proposal)
    return found


class ProposalSelection:
    """What a node does when it is a root: collect proposals for a window, and select at most so many."""

    def __init__(self, node: Node, send: Callable[[Address, object], None], window: float, most: int) -> None:
        self.node = node
        self._send = send
        self._window = window
        self._most = most
        self._period = 0
        self._proposals: list[ChangeProposal] = []
        node.handle(ChangeProposal, self._proposal)
        node.at_alarm("flow best", self._decide)

    def _proposal(self, proposal: ChangeProposal, sender: Address) -> None:
        if proposal.period > self._period:
            self._period, self._proposals = proposal.period, []
            # The first root waits until the others have waited.
            windows = 2 if proposal.lead == self.node.address else 1
            self.node.wake_after(self._window * windows, "flow best", proposal.period)
        if proposal.period == self._period:
            self._proposals.append(proposal)

    def _decide(self, period: int) -> None:
        if period != self._period:
            return
        for best in select_proposals(self._proposals, self._most):
            if best.lead != self.node.address:
                self._send(best.lead, best)
            else:
                self._send(best.host, ChangeOrder(best.rule, best.operator, best.moves))
        self._proposals = []
