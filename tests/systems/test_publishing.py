"""An event that cannot be read is refused where it is published, and never troubles another node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributary.errors import DocumentError
from distributary.matching import single
from distributary.model import Event, Subscription
from distributary.overlay.node import Node
from distributary.overlay.tree.node import TreeNode
from distributary.systems.interests import FEW
from distributary.systems.tree.broker import TreeBroker
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


def test_a_broker_reads_a_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    read_document = single.read_document
    monkeypatch.setattr(
        single, "read_document", lambda data: (read.append(len(data)), read_document(data))[1]
    )
    broker = TreeBroker(TreeNode(Node(3), is_root=True))
    broker.node.start(now=0.0)
    for number in range(FEW + 1):
        subscription = Subscription(f"s{number}", "ann", path=f"/a/b{number}")
        broker.node.call(lambda one=subscription: broker.subscribe(one), 0.0)
    documents = [f"<a><b{number}/></a>" for number in range(FEW + 1)]
    for number, document in enumerate(documents):
        event = Event(f"e{number}", document=document)
        [given] = broker.node.call(lambda one=event: broker.publish(one), 1.0)
        assert given.item.subscriptions == (f"s{number}",)
    assert read == [len(document) for document in documents]
