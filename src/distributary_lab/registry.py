"""Which experiments there are. To add some: write a module with a tuple `EXPERIMENTS`, and list it here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from distributary.errors import DistributaryError
from distributary_lab.claims import BEYOND, claims
from distributary_lab.experiment import Experiment

MODULES = {
    "topics": ("matching", "tree_size"),
    "xml": ("matching", "signature_times", "space", "false_positives"),
    "hope": ("multicast", "delivery", "nodes", "upkeep", "failures", "balance"),
    "state_aware": ("dissemination", "balance"),
    "attributes": ("paths", "matching", "load"),
    "tree": (
        *("latency", "scope", "load", "bottleneck", "bottleneck_limits", "bottleneck_annealing"),
        *("redundancy", "traffic"),
    ),
    "placement": ("bandwidth", "latency", "load", "traffic", "beyond", "live"),
    "systems": ("comparison",),
    "network": ("delay", "wide_area", "redundant_data", "hope_upkeep", "placed_queries"),
}
"""The modules that hold experiments, by package of `distributary_lab`, in the order of the report."""

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
    found = tuple(
        each
        for each in experiments()
        if name in (each.name, *each.answers, *(claims()[claim_id].seed for claim_id in each.answers))
    )
    if found:
        return found
    seeds = {claim.seed for claim in claims().values()}
    if name in claims() or name in seeds:
        reason = claims()[name].not_reproduced if name in claims() else ""
        raise DistributaryError(f"nothing to run for {name}: {reason or 'no experiment yet'}")
    names = ", ".join(each.name for each in experiments())
    raise DistributaryError(
        f"no experiment {name!r}; choose a claim id (distributary lab list), a document "
        f"({', '.join(sorted(seeds - {BEYOND}))}), {ALL}, or one of {names}"
    )


def _listed() -> Iterator[Experiment]:
    names: set[str] = set()
    answered: set[str] = set()
    for module in (f"{package}.{name}" for package, names in MODULES.items() for name in names):
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
