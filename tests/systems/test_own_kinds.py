"""Filter kinds that an application adds are for every system, also those that look at documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from distributary.filters import kinds
from distributary.filters.filter import Filter
from distributary.model import Event
from systems.test_identity import PUBSUB, asks, deployed, received


class LongDocument(Filter):
    """Lets documents pass that have more characters."""

    kind: ClassVar[str] = "longer_than"

    def __init__(self, length: int) -> None:
        self.length = length

    @classmethod
    def parse(cls, given: Any) -> LongDocument:
        return cls(int(given))

    @property
    def text(self) -> str:
        return str(self.length)

    def matches(self, event: Event) -> bool:
        return event.document is not None and len(event.document) > self.length

    def covers(self, other: LongDocument) -> bool:
        return self.length <= other.length

    def merge(self, other: LongDocument) -> LongDocument:
        return min(self, other, key=lambda one: one.length)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    kinds.register(LongDocument)
    yield
    del kinds._added[LongDocument.kind]


@pytest.mark.parametrize("name", PUBSUB)
def test_a_kind_that_looks_at_documents_decides_at_the_home(name: str) -> None:
    deployment, addresses = deployed(name)
    deployment.subscribe(replace(asks(name, "ann"), more={"longer_than": 20}), at=addresses[2])
    deployment.simulator.run(until=40)
    for source, price, inside in (("x", 20.0, ""), ("y", 30.0, "<c>0123456789</c>")):
        event = Event("e1", "A/B/C", {"source": source, "price": price}, f"<a><b/>{inside}</a>")
        deployment.publish(event, at=addresses[4])
        deployment.simulator.run(until=deployment.simulator.now + 20)
    assert received(deployment) == [("ann", "y", 30.0)]
