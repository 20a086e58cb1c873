"""Which of the changes that nodes propose are carried out: what the roots of trees do (003, 5.4.5).

Rules, for every period:

- Each root collects what is proposed to it for a window, and passes the best on to the first root. That one
  waits a window longer, and has the best of all carried out by the operators' hosts.
- Several are carried out if they have nothing to do with each other: no node is touched by two, as the host
  of what moves, as a place it goes to, or as the host of what it reads or is read by. So no node is given
  more than was reckoned with, and what one is worth does not depend on another, but for sources' links.

Cost: a message for each proposal and root on its way, one for each change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from distributary.overlay.node import Address, Node


class ChangeProposal(NamedTuple):
    """The best change that a node knows of."""

    period: int
    benefit: float
    lead: Address
    """The first root, which decides."""
    host: Address
    rule: str
    operator: str
    moves: tuple[tuple[str, Address], ...]
    """Who goes where; of a division, the replicas."""
    touched: tuple[Address, ...]
    """The nodes that have to do with it."""


class ChangeOrder(NamedTuple):
    """A proposal that is to be carried out by the operator's host."""

    rule: str
    operator: str
    moves: tuple[tuple[str, Address], ...]


def worth(proposal: ChangeProposal) -> tuple[float, str]:
    """What proposals are compared by; of equal ones, any, but always the same."""
    return proposal.benefit, proposal.operator


def chosen(proposals: Iterable[ChangeProposal], most: int) -> list[ChangeProposal]:
    """The best, and the best of those that have nothing to do with it, and so on.

    >>> one, two, three = (
    ...     ChangeProposal(1, benefit, 9, host, "migration", f"o{host}", ((f"o{host}", to),), (host, to))
    ...     for benefit, host, to in ((5.0, 1, 2), (7.0, 2, 3), (1.0, 4, 5))
    ... )
    >>> [proposal.operator for proposal in chosen([one, two, three], most=17)]
    ['o2', 'o4']
    """
    found: list[ChangeProposal] = []
    taken: set[Address] = set()
    for proposal in sorted(proposals, key=worth, reverse=True):
        if len(found) < most and taken.isdisjoint(proposal.touched):
            taken.update(proposal.touched)
            found.append(proposal)
    return found


class ProposalSelection:
    """A root's part in choosing."""

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
        for best in chosen(self._proposals, self._most):
            if best.lead != self.node.address:
                self._send(best.lead, best)
            else:
                self._send(best.host, ChangeOrder(best.rule, best.operator, best.moves))
        self._proposals = []
