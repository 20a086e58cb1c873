"""Settings of systems: what makes no sense is refused with the reason, before anything runs."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from distributary.errors import DistributaryError
from distributary.model import Subscription
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import Settings
from distributary.systems.options import read_options
from distributary.systems.table import SYSTEMS, system
from systems.test_identity import asks

EVERY = [(name, option.name) for name, each in SYSTEMS.items() for option in each.options]
ODD: list[Any] = ["", "abc", "-1", "1,x", "nan", "inf", None, True, 5, 0.5, [], {}, ["x"], b"1", object()]


def refusal(name: str, option: str, value: Any) -> str | None:
    """Why a value is refused; None when it is read."""
    try:
        read_options(name, system(name).options, {option: value})
    except DistributaryError as error:
        return str(error)
    return None


@pytest.mark.parametrize(("name", "option"), EVERY)
def test_odd_values_are_read_or_refused_with_the_name_of_the_setting(name: str, option: str) -> None:
    refused = {str(value): reason for value in ODD if (reason := refusal(name, option, value)) is not None}
    assert refused
    for value, reason in refused.items():  # of a file that cannot be read, its name is told
        assert f"setting {option} of system {name!r}" in reason or (option == "schema" and value in reason)


def with_clients(name: str, chosen: dict[str, Any]) -> Deployment:
    """Some nodes of a system with these settings, and two subscriptions."""
    addresses = sorted(Random(3).sample(range(1 << 32), 8))
    settings = Settings(len(addresses), chosen=chosen)
    assembly = system(name).assemble(settings, addresses, lambda one: deployment.contact(one))
    deployment = Deployment(Simulator(1, ConstantLatency(0.02)), assembly)
    deployment.add_settled(addresses, assembly.settle)
    for who in ("ann", "bob"):
        asked = Subscription("s1", who, where="a0 > 0.5") if "attributes" in name else asks(name, who)
        deployment.subscribe(asked, at=addresses[2])
    return deployment


@pytest.mark.parametrize(("name", "option"), EVERY)
@pytest.mark.parametrize("value", ["0", "1", "0.001"])
def test_least_values_work_or_are_refused_before_anything_runs(name: str, option: str, value: str) -> None:
    try:
        chosen = read_options(name, system(name).options, {option: value})
        deployment = with_clients(name, chosen)
    except DistributaryError:
        return
    deployment.simulator.run(until=30)
    assert len(deployment.subscriptions) == 2
