"""Events are in the log once, and none is lost, whatever ends between a broker and the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distributary import Event
from distributary.client import connect_plain
from distributary.errors import DistributaryError
from distributary.spark.connectors.message_log import MessageLog, read_range
from distributary.spark.connectors.network.event import LoggedEvent
from distributary.spark.connectors.network.intake import NetworkIntake
from distributary.spark.connectors.network.source import filters_of, reading_options
from spark.connectors.brokers import PATIENCE, ServedBroker, served_broker

KINDS = ("web", "node")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with served_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(params=KINDS)
def options(broker: ServedBroker, tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    topic = request.node.name.replace("[", "/").rstrip("]")
    at = broker.web if request.param == "web" else broker.node
    return {"at": at, "topic": topic, "log": str(tmp_path / "log")}


def started(given: dict[str, str], **more: str) -> NetworkIntake:
    options = reading_options(given | more)
    log = MessageLog(given["log"], LoggedEvent, more.get("subscriber"))
    intake = NetworkIntake(options, str(options["id"]), filters_of(options), log)
    try:
        intake.start()
    except BaseException:
        intake.close()
        raise
    return intake


def logged(log: MessageLog[LoggedEvent]) -> list[LoggedEvent]:
    return [each for one in log.ranges(log.begin, log.end, 1000) for each in read_range(one, LoggedEvent)]


def publish(options: dict[str, str], ids: range, **attributes: Any) -> None:
    with connect_plain(options["at"]) as client:
        # A network knows events by source and id, and gives none twice.
        attributes["source"] = options["topic"]
        client.publish(*[Event(f"e{number}", options["topic"], attributes) for number in ids])


def until(intake: NetworkIntake, end: int) -> None:
    with intake.changed:
        assert intake.changed.wait_for(lambda: intake.failure or intake.log.end >= end, PATIENCE)
    intake.require_sound()


def ids(intake: NetworkIntake) -> list[str]:
    return [each.id for each in logged(intake.log)]


def test_what_is_published_comes_with_all_its_attributes(options: dict[str, str]) -> None:
    intake, topic = started(options, where="price > 8"), options["topic"]
    with connect_plain(options["at"]) as client:
        client.publish(
            Event("e1", topic, {"price": 8.5, "source": topic, "tags": ("a", 1)}, "<a/>"),
            Event("e2", topic, {"price": 7, "source": topic}),
        )
        client.publish(Event(f"e3 of {topic}", topic, {"price": 9}))
    until(intake, 2)
    first, second = logged(intake.log)
    assert (first.id, first.source, first.topic, first.document) == ("e1", topic, topic, "<a/>")
    assert first.attributes == '{"price":8.5,"tags":["a",1]}'
    assert (second.source, second.attributes, second.document) == ("", '{"price":9}', None)
    intake.close()


def test_what_comes_while_nobody_is_there_is_there_afterwards(options: dict[str, str]) -> None:
    started(options).close()
    publish(options, range(3))
    intake = started(options)
    until(intake, 3)
    intake.close()
    publish(options, range(3, 6))
    intake = started(options)
    until(intake, 6)
    assert ids(intake) == [f"e{number}" for number in range(6)]
    intake.close()


@pytest.mark.parametrize("moment", ["before the disk", "torn", "after the disk"])
def test_nothing_is_lost_or_twice_when_the_intake_ends(
    options: dict[str, str], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = started(options)
    append = intake.log.append

    def end(events: list[LoggedEvent]) -> None:
        if moment == "torn":
            append(events[: len(events) // 2])
        elif moment == "after the disk":
            append(events)
        raise DistributaryError("it ends here")

    monkeypatch.setattr(intake.log, "append", end)
    publish(options, range(20))
    with intake.changed:
        assert intake.changed.wait_for(lambda: intake.failure, PATIENCE)
    intake.close()
    publish(options, range(20, 30))
    intake = started(options)
    until(intake, 30)
    assert ids(intake) == [f"e{number}" for number in range(30)]
    intake.close()


def test_a_full_log_ends_the_connection_until_spark_has_processed_some(options: dict[str, str]) -> None:
    intake = started(options, maxLogBytes="3000")
    publish(options, range(20), text="x" * 400)
    full = intake.wait_until_quiet(60)
    assert 1 <= full <= 20
    publish(options, range(20, 40), text="x" * 400)
    while (end := intake.log.end) < 40:
        intake.processed(end)
        until(intake, end + 1)
    assert ids(intake) == [f"e{number}" for number in range(40)]
    intake.close()


def test_another_subscriber_s_log_and_wrong_options_are_refused(options: dict[str, str]) -> None:
    started(options, subscriber="ann").close()
    with pytest.raises(DistributaryError, match="belongs to the client ann, not to bob"):
        started(options, subscriber="bob")
    for wrong, told in [
        ({"where": "price >"}, 'the subscription of the format "distributary": where'),
        ({"change": "0.5"}, "it must be JSON such as"),
        ({"at": "ws://a, b:1"}, "endpoints of one kind"),
        ({"att": "x"}, 'did you mean "at"'),
    ]:
        with pytest.raises(DistributaryError, match=told):
            reading_options(options | wrong)
    with pytest.raises(DistributaryError, match="cannot connect to"):
        started(options, at=options["at"].rpartition(":")[0] + ":1")
