"""Which changes of a placement are considered: the rules, and how far they reach (section 5.4.1 to 5.4.3).

Rules:

- MIGRATION moves one operator. TOGETHER moves several operators of a site as if they were one: an operator
  with those that read it, directly or not, or all operators that read one feed. Where operators share a feed,
  the feed still travels to the site until the last of them has moved. REPLICATION and PARTITION split an
  operator and place the replicas.
- A local rule reaches the sites around an operator's host: parents and descendants up to so many levels and
  siblings, in every tree, the operators' own trees (producers, their other readers, readers) included.
- A directed rule reaches the sites that the host has heard of (`statistics`).

An application adds a rule that moves operators together by naming the groups it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from distributary.plan.queries.placement import SiteNetwork
from distributary.plan.queries.state import Indices, PlacementState
from distributary.plan.trees.rules import descendants
from distributary.plan.trees.tree import NO_PARENT, Tree

Group = tuple[int, ...]


@dataclass(frozen=True)
class QueryRule:
    """What may be done with an operator: the groups that move with it, or how it is split."""

    name: str
    groups: Callable[[PlacementState, int], Iterable[Group]] | None = None


def _alone(state: PlacementState, operator: int) -> list[Group]:
    return [(operator,)]


def behind(state: PlacementState, operators: Iterable[int]) -> Group:
    """These operators and everything behind them at the same site, as far as nothing else lies between."""
    found = list(operators)
    known = set(found)
    for operator in found:
        for reader in state.readers[state.sources + operator]:
            here = state.hosts[reader] == state.hosts[operator]
            if here and reader not in known and state.workload.operators[reader].pinned is None:
                known.add(reader)
                found.append(reader)
    return tuple(sorted(found))


def _together(state: PlacementState, operator: int) -> list[Group]:
    groups = {behind(state, (operator,))}
    for stream in state.inputs[operator]:
        if stream < state.sources:
            host = state.hosts[operator]
            operators = state.workload.operators
            same = [
                one
                for one in state.readers[stream]
                if state.hosts[one] == host and operators[one].pinned is None
            ]
            if same[0] == operator and len(same) > 1:
                groups.add(behind(state, same))
    return sorted(groups - {(operator,)})


MIGRATION = QueryRule("migration", _alone)
TOGETHER = QueryRule("migration together", _together)
REPLICATION = QueryRule("replication")
PARTITION = QueryRule("partition")

MIGRATIONS: Sequence[QueryRule] = (MIGRATION, TOGETHER)


@dataclass(frozen=True)
class RuleArea:
    """How far rules reach."""

    local: bool = True
    directed: bool = False
    levels: int = 2
    reach: int = 40
    """How many of the best sites heard of are considered."""


LOCAL = RuleArea()
DIRECTED = RuleArea(local=False, directed=True)
HYBRID = RuleArea(local=True, directed=True)


@dataclass(frozen=True)
class QueryRewrite:
    """One change: the rule, the operator it was for, who goes where, and what it brought.

    For a split, `changes` says where the replicas are, by their numbers in the workload after it.
    """

    rule: str
    operator: int
    changes: Mapping[int, int]
    origin: int
    benefit: float


def around(tree: Tree, site: int, levels: int) -> set[int]:
    """A site's neighbours in a tree: up and down so many levels, and siblings."""
    found = {below for down in range(levels + 1) for below in descendants(tree, site, down)}
    found.update(tree.path(site)[: levels + 1])
    if tree.parents[site] != NO_PARENT:
        found.update(tree.children[tree.parents[site]])
    return found - {site}


class SiteNeighbourhood:
    """The neighbours of every site in all trees of a network; each site's are found when first asked for."""

    def __init__(self, network: SiteNetwork, levels: int) -> None:
        self._of = cache(lambda site: set().union(*(around(tree, site, levels) for tree in network.trees)))

    def of_operators(self, state: PlacementState, operators: Sequence[int]) -> Indices:
        """Where a group at one site may go: its neighbours, and those of the group's own trees."""
        host = state.hosts[operators[0]]
        found = set(self._of(host))
        for operator in operators:
            found.update(state.reading[operator])
            for stream in state.inputs[operator]:
                if stream >= state.sources:
                    found.add(state.hosts[stream - state.sources])
                    found.update(state.reading[stream - state.sources])
        found.discard(host)
        return np.array(sorted(found), dtype=np.intp)
