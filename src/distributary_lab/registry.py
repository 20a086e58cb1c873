"""Which experiments there are. To add some: write a module with a tuple `EXPERIMENTS`, and list it here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from distributary.errors import DistributaryError
from distributary_lab.claims import BEYOND, claims
from distributary_lab.experiment import Experiment

MODULES = (
    "topics.matching",
    "topics.tree_size",
    "xml.matching",
    "xml.signature_times",
    "xml.space",
    "xml.false_positives",
    "hope.multicast",
    "hope.delivery",
    "hope.upkeep",
    "hope.failures",
    "hope.balance",
    "attributes.paths",
    "state_aware.dissemination",
    "attributes.matching",
    "attributes.load",
    "tree.latency",
    "tree.scope",
    "tree.load",
    "tree.bottleneck",
    "tree.bottleneck_limits",
    "tree.bottleneck_annealing",
    "tree.redundancy",
    "tree.traffic",
    "placement.bandwidth",
    "placement.latency",
    "placement.load",
    "placement.traffic",
    "placement.beyond",
    "placement.live",
    "systems.comparison",
)
"""The modules of `distributary_lab` that hold experiments, in the order of the report."""

ALL = "all"


@cache
def experiments() -> tuple[Experiment, ...]:
    """All experiments."""
    return tuple(_listed())


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
        for each in import_module(f"distributary_lab.{module}").EXPERIMENTS:
            twice, unknown = answered & set(each.answers), set(each.answers) - set(claims())
            if each.name in names or twice:
                raise DistributaryError(f"{module}: {each.name} {sorted(twice)} is there already")
            if unknown:
                raise DistributaryError(
                    f"{module}: {each.name} answers {sorted(unknown)}, not in claims.toml"
                )
            names.add(each.name)
            answered |= set(each.answers)
            yield each
