"""Messages are in the log once, and none is lost, whatever is killed between a broker and the log."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from distributary.errors import DistributaryError
from distributary.spark.connectors.message_log import MessageLog, read_range
from distributary.spark.connectors.mqtt.intake import MqttIntake, Repetitions
from distributary.spark.connectors.mqtt.message import LoggedMessage
from distributary.spark.connectors.mqtt.source import reading_options
from spark.connectors.brokers import BROKERS, PATIENCE, broker, publish

VERSIONS = pytest.mark.parametrize("version", ["3.1.1", "5"])


@pytest.fixture(scope="module", params=BROKERS)
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with broker(request.param, tmp_path_factory.mktemp("broker")) as port:
        yield port


@pytest.fixture
def options(port: int, tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    topic = request.node.name.replace("[", "/").rstrip("]")
    return {"host": "127.0.0.1", "port": str(port), "topic": f"{topic}/#", "log": str(tmp_path / "log")}


def started(options: dict[str, str], **more: str) -> MqttIntake:
    log = MessageLog(options["log"], LoggedMessage)
    intake = MqttIntake(reading_options(options | more), [options["topic"]], log)
    try:
        intake.start()
    except BaseException:
        intake.close()
        raise
    return intake


def logged(log: MessageLog[LoggedMessage]) -> list[LoggedMessage]:
    return [each for one in log.ranges(log.begin, log.end, 1000) for each in read_range(one, LoggedMessage)]


def topic_of(options: dict[str, str]) -> str:
    return options["topic"].replace("#", "x")


def taking(options: dict[str, Any]) -> subprocess.Popen[str]:
    """A process that takes messages, once it does."""
    program = str(Path(__file__).with_name("taking.py"))
    process = subprocess.Popen(
        [sys.executable, program, json.dumps(options)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def ended(process: subprocess.Popen[str]) -> int:
    code = process.wait(PATIENCE)
    assert process.stdout is not None
    process.stdout.close()
    return code


@VERSIONS
def test_messages_have_all_that_came_with_them(options: dict[str, str], version: str) -> None:
    intake = started(options, version=version)
    publish(int(options["port"]), topic_of(options), [b'{"price": 1}', b"\x00\xff", b""])
    intake.wait_until_quiet(1)
    came = logged(intake.log)
    assert [(each.topic, each.payload, each.qos, each.retained) for each in came] == [
        (topic_of(options), payload, 1, False) for payload in (b'{"price": 1}', b"\x00\xff", b"")
    ]
    assert {each.properties is None for each in came} == {version == "3.1.1"}
    intake.close()


@pytest.mark.parametrize(
    ("moment", "version"),
    [
        ("append", "3.1.1"),
        ("ack", "5"),
        *(pytest.param(*each, marks=pytest.mark.chaos) for each in (("append", "5"), ("ack", "3.1.1"))),
    ],
)
def test_nothing_is_lost_or_twice_when_the_process_is_killed(
    options: dict[str, str], moment: str, version: str
) -> None:
    options |= {"version": version}
    ended_early = taking({**options, "halt": [moment, 7]})
    # Equal payloads are different messages too.
    sent = [f"{number // 3}".encode() for number in range(60)]
    publish(int(options["port"]), topic_of(options), sent[:30])
    assert ended(ended_early) == 9
    for number in (1, 4):
        again = taking({**options, "halt": [moment, number]})
        publish(int(options["port"]), topic_of(options), sent[30:45] if number == 1 else sent[45:])
        assert ended(again) == 9
    intake = started(options)
    intake.wait_until_quiet(2)
    assert [each.payload for each in logged(intake.log)] == sent
    intake.close()


def test_what_comes_while_nobody_is_there_is_kept_by_the_broker(options: dict[str, str]) -> None:
    started(options).close()
    publish(int(options["port"]), topic_of(options), [b"1", b"2"])
    intake = started(options)
    intake.wait_until_quiet(1)
    assert [each.payload for each in logged(intake.log)] == [b"1", b"2"]
    intake.close()


@VERSIONS
def test_a_retained_message_comes_once_and_not_with_every_start(
    options: dict[str, str], version: str
) -> None:
    publish(int(options["port"]), topic_of(options), [b"kept"], retain=True)
    for _ in range(2):
        intake = started(options, version=version)
        intake.wait_until_quiet(1)
        came = [(each.payload, each.retained) for each in logged(intake.log)]
        intake.close()
        assert came == [(b"kept", True)]


def _is_logged_or_full(intake: MqttIntake, number: int) -> bool:
    return intake.log.end > number or not intake.has_room()


def test_a_full_log_leaves_messages_with_the_broker_until_spark_has_processed_some(
    options: dict[str, str],
) -> None:
    intake = started(options, maxLogBytes="3000")
    for number in range(40):
        publish(int(options["port"]), topic_of(options), [bytes([number]) * 1000])
        with intake.changed:  # messages that wait together are logged together
            came = partial(_is_logged_or_full, intake, number)
            assert intake.changed.wait_for(came, PATIENCE)
    full = intake.wait_until_quiet(60)  # it does not wait for what cannot come
    assert 3 <= full < 40
    while (end := intake.log.end) < 40:
        intake.processed(end)
        with intake.changed:
            assert intake.changed.wait_for(lambda end=end: intake.log.end > end, PATIENCE)
    assert [each.payload[0] for each in logged(intake.log)] == list(range(40))
    intake.close()


def test_a_broker_that_does_not_answer_is_told(options: dict[str, str]) -> None:
    with pytest.raises(DistributaryError, match=r"no MQTT broker answers at 127\.0\.0\.1:1"):
        started(options, port="1")


@pytest.mark.parametrize("port", ["ours"], indirect=True)  # mosquitto takes such a filter for a topic
def test_a_filter_that_the_broker_refuses_is_told(options: dict[str, str]) -> None:
    log = MessageLog(options["log"], LoggedMessage)
    intake = MqttIntake(reading_options(options), ["$share/group"], log)
    with pytest.raises(DistributaryError, match="refuses the topic filter"):
        intake.start()
    intake.close()


def test_only_what_has_the_identifier_and_the_content_of_a_logged_message_is_a_repetition() -> None:
    first = LoggedMessage("a", b"1", 1, False, 5, 3, {"expiry": 60, "user": [["k", "v"]]})
    known = Repetitions([first])
    later = LoggedMessage("a", b"1", 1, False, 9, 3, {"expiry": 58, "user": [["k", "v"]]})
    assert known.has(later)
    assert not known.has(LoggedMessage("a", b"2", 1, False, 9, 3, first.properties))
    assert not known.has(LoggedMessage("a", b"1", 1, False, 9, 4, first.properties))
    known.add(LoggedMessage("a", b"2", 1, False, 9, 3))
    assert not known.has(later)
    known.clear()
    assert not known.has(LoggedMessage("a", b"2", 1, False, 9, 3))
