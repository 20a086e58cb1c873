"""An event that cannot be read is refused where it is published, and never troubles another node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributary.errors import DocumentError
from distributary.model import Event
from distributary.systems.interests import FEW
from systems.test_identity import PUBSUB, asks, deployed, quote, received


@pytest.mark.parametrize("subscriptions", [1, FEW + 1])
@pytest.mark.parametrize("name", PUBSUB)
def test_a_document_that_cannot_be_read_is_refused_at_once(name: str, subscriptions: int) -> None:
    deployment, addresses = deployed(name)
    for number in range(subscriptions):
        deployment.subscribe(replace(asks(name, "ann"), id=f"s{number}"), at=addresses[2])
    deployment.simulator.run(until=40)
    with pytest.raises(DocumentError):
        deployment.publish(Event("e0", "A/B/C", {"price": 20.0}, "<a><b/>"), at=addresses[4])
    deployment.publish(quote("x", 20.0), at=addresses[4])
    deployment.simulator.run(until=60)
    assert received(deployment) == [("ann", "x", 20.0)]
