"""What a broker is told at its start that cannot serve a file, and what becomes of sinks that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from distributary.edge.kafka.bridge import KafkaBridge
from distributary.edge.kafka.outlet import SESSIONS
from distributary.edge.kafka.settings import KafkaSettings
from distributary.edge.sessions import Sessions
from distributary.edge.web.pulling import Puller
from distributary.errors import DistributaryError
from distributary.model import Event
from distributary.toml_files import validated
from edge.session_world import LoggedBroker

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
SINK = {"name": "dear", "to": "dear-quotes", "where": "price > 8"}
SOURCE = {"topics": ["quotes"]}


async def publish(events: Sequence[Event]) -> str | None:
    return "nobody is here"


def bridge(record: dict[str, Any], sessions: Sessions, notes: list[str], **more: Any) -> KafkaBridge:
    settings = validated(KafkaSettings, {"connection": NOWHERE, **record}, "kafka.toml")
    given = {"network": "n", "broker": "first", "data": None, "alone": True, "note": notes.append, **more}
    return KafkaBridge(settings, sessions, publish, **given)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(LoggedBroker(Random(1)), lambda: 0.0)


@pytest.mark.parametrize(
    ("record", "more", "sentence"),
    [
        ({"sink": [SINK]}, {}, "--data"),
        ({"sink": [SINK]}, {"data": Path("data"), "alone": False}, "which broker"),
        (
            {"sink": [SINK], "connection": {**NOWHERE, "ssl.ca.locaton": "x"}},
            {"data": Path("data")},
            "ssl.ca.locaton",
        ),
        ({"source": [{**SOURCE, "options": {"fetch.min.bytes": "many"}}]}, {}, "fetch.min.bytes"),
    ],
)
def test_a_file_that_cannot_be_served_is_refused_with_the_reason(
    sessions: Sessions, record: dict[str, Any], more: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DistributaryError, match=sentence):
        bridge(record, sessions, [], **more)


def test_a_sink_belongs_to_the_broker_that_it_names(sessions: Sessions, tmp_path: Path) -> None:
    record = {"sink": [{**SINK, "broker": "second"}]}
    assert bridge(record, sessions, [], data=tmp_path, alone=False).outlets == []
    assert len(bridge(record, sessions, [], data=tmp_path, broker="second").outlets) == 1


def test_a_kafka_that_is_away_is_told_and_does_not_keep_a_broker_from_ending(
    sessions: Sessions, tmp_path: Path
) -> None:
    notes: list[str] = []

    async def run() -> None:
        made = bridge({"source": [SOURCE]}, sessions, notes)
        made.start()
        while not notes:
            await asyncio.sleep(0.01)
        await made.stop()
        assert made.intakes[0].trouble is not None

    asyncio.run(run())
    assert "127.0.0.1:1" in notes[0]


def test_the_session_of_a_sink_that_is_gone_from_the_file_is_closed(sessions: Sessions) -> None:
    async def run() -> None:
        sessions.attach(SESSIONS + "dear", Puller(), expiry=None)
        sessions.attach("ann", Puller(), expiry=None)
        made = bridge({"source": [SOURCE]}, sessions, [])
        made.start()
        await made.stop()

    asyncio.run(run())
    assert [session.subscriber for session in sessions] == ["ann"]
