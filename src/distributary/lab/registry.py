"""Which experiments there are. To add some: write a module with a tuple `EXPERIMENTS`, and list it here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from distributary.errors import DistributaryError
from distributary.lab.claims import BEYOND, Claim, catalogue
from distributary.lab.experiment import Experiment

MODULES = (
    "topics",
    "topic_tree_size",
    "xml_matching",
    "xml_signature_times",
    "xml_space",
    "xml_false_positives",
    "hope_multicast",
    "hope_delivery",
    "hope_upkeep",
    "hope_failures",
    "hope_balance",
    "ring_paths",
    "state_aware",
    "attributes",
    "attribute_load",
    "tree_latency",
    "tree_scope",
    "tree_load",
    "tree_bottleneck",
    "tree_bottleneck_limits",
    "tree_bottleneck_annealing",
    "tree_redundancy",
    "tree_traffic",
    "placement_bandwidth",
    "placement_latency",
    "placement_load",
    "placement_traffic",
    "placement_beyond",
    "query_network",
    "comparison",
)
"""The modules of `distributary.lab` that hold experiments, in the order of the report."""

ALL = "all"


@cache
def experiments() -> tuple[Experiment, ...]:
    """All experiments."""
    return tuple(_listed())


@cache
def claims() -> dict[str, Claim]:
    """All claims by id: those of the documents, then our own."""
    own = (answer.claim for each in experiments() for answer in each.answers.values())
    return {**catalogue(), **{claim.id: claim for claim in own if claim is not None}}


@cache
def experiment_of() -> dict[str, Experiment]:
    """The experiment that answers each claim that has one."""
    return {claim_id: each for each in experiments() for claim_id in each.answers}


def find(name: str) -> tuple[Experiment, ...]:
    """The experiments behind a claim id, an experiment's name, a seed document such as '000', or 'all'."""
    if name == ALL:
        return experiments()
    if name in claims():
        answered = experiment_of().get(name)
        if answered is None:
            reason = claims()[name].not_reproduced or "no experiment yet"
            raise DistributaryError(f"nothing to run for {name}: {reason}")
        return (answered,)
    seeds = {claim.seed for claim in claims().values()}
    found = tuple(
        each
        for each in experiments()
        if each.name == name or (name in seeds and any(claims()[id].seed == name for id in each.answers))
    )
    if not found and name in seeds:
        raise DistributaryError(f"nothing to run for {name}: no experiment yet")
    if not found:
        names = ", ".join(each.name for each in experiments())
        raise DistributaryError(
            f"no experiment {name!r}; choose a claim id (distributary lab list), a document "
            f"({', '.join(sorted(seeds - {BEYOND}))}), {ALL}, or one of {names}"
        )
    return found


def _listed() -> Iterator[Experiment]:
    names: set[str] = set()
    answered: set[str] = set()
    for module in MODULES:
        for each in import_module(f"distributary.lab.{module}").EXPERIMENTS:
            twice = answered & set(each.answers)
            if each.name in names or twice:
                raise DistributaryError(f"lab.{module}: {each.name} {sorted(twice)} is there already")
            names.add(each.name)
            answered |= set(each.answers)
            yield each
