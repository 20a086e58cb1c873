"""The commands `publish` and `subscribe`: acknowledged, resumed, killed and started again."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from random import Random
from typing import Any

import pytest

from distributary.cli.main import main
from distributary.cli.subscribed_file import SubscribedFile
from distributary.client import connect, session_record
from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.model import Event, Offset, Subscription
from distributary.overlay.broker import SessionState
from distributary.systems.table import SYSTEMS
from live.loops import alone, until


def broker(data: Path, name: str = "hall", **options: Any) -> LiveBroker:
    return LiveBroker("distributary", "tree", name=name, data=data, on_notice=lambda _: None, **options)


async def run(*arguments: str, **pipes: Any) -> Process:
    command = [sys.executable, "-m", "distributary.cli", *arguments]
    return await asyncio.create_subprocess_exec(*command, **({"stdin": DEVNULL, "stderr": PIPE} | pipes))


async def first_line(process: Process) -> str:
    assert process.stderr is not None
    return (await process.stderr.readline()).decode()


def lines(*numbers: int) -> bytes:
    records = ({"id": f"e{number}", "topic": "quotes", "price": number} for number in numbers)
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []


@alone
async def test_publish_goes_on_when_its_broker_comes_back_and_ends_when_all_is_acknowledged(
    tmp_path: Path,
) -> None:
    hall = broker(tmp_path / "data")
    place = await hall.start()
    buyer = connect(place, name="ann")
    async with buyer, buyer.subscribed(topic="quotes") as events:
        publisher = await run("publish", "--to", f"127.0.0.1:1,{place}", "--events", "-", stdin=PIPE)
        assert publisher.stdin is not None
        publisher.stdin.write(lines(*range(1_000)))
        await until(lambda: hall.delivered > 300)
        await hall.stop()
        hall = broker(tmp_path / "data")
        await hall.start(*place)
        publisher.stdin.write(lines(*range(1_000, 2_000)))
        publisher.stdin.close()
        _, told = await publisher.communicate()
        assert (publisher.returncode, told.decode()) == (0, "2,000 events published\n")
        assert [(await anext(events)).id for _ in range(2_000)] == [f"e{number}" for number in range(2_000)]
    await hall.stop()


@alone
async def test_publish_does_not_wait_for_the_end_of_a_pipe(tmp_path: Path) -> None:
    async with broker(tmp_path) as hall:
        buyer = connect(hall.endpoint)
        async with buyer, buyer.subscribed(topic="quotes") as events:
            publisher = await run("publish", "--to", str(hall.endpoint), "--events", "-", stdin=PIPE)
            assert publisher.stdin is not None
            publisher.stdin.write(lines(1))
            assert (await anext(events)).id == "e1"
            publisher.stdin.write(lines(2))
            assert (await anext(events)).id == "e2"
            publisher.stdin.close()
            assert await publisher.wait() == 0


@alone
async def test_publish_keeps_a_rate_without_waiting_for_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_bytes(lines(*range(20)))
    async with broker(tmp_path / "data") as hall:
        held: list[Any] = []
        acknowledged = hall.clients.acknowledged
        assert hall._runner is not None
        hall._runner._on_acknowledgement = held.append
        asked = ("--to", str(hall.endpoint), "--events", str(events), "--rate", "200")
        publisher = await run("publish", *asked)
        await until(lambda: sum(len(each.events) for each in held) == 20)
        assert publisher.returncode is None, "nothing is answered yet"
        for each in held:
            acknowledged(each)
        assert await publisher.wait() == 0


@alone
async def test_a_subscriber_that_is_killed_goes_on_and_its_file_has_every_event_once(tmp_path: Path) -> None:
    random = Random(2)
    out = tmp_path / "out.jsonl"
    async with broker(tmp_path / "data") as hall, connect(hall.endpoint) as seller:
        asked = ("--at", f"127.0.0.1:1,{hall.endpoint}", "--subscriber", "ann", "--id", "s1")
        asked += ("--topic", "quotes", "--out", str(out))

        async def subscriber() -> Process:
            made = await run("subscribe", *asked)
            assert (await first_line(made)) == "subscribed as ann at hall\n"
            return made

        process = await subscriber()
        number = 0

        async def publish(count: int) -> None:
            nonlocal number
            for _ in range(count):
                await seller.publish(Event(f"e{number}", "quotes", {"price": number}))
                number += 1

        for _ in range(4):
            await publish(random.randrange(100, 300))
            await until(lambda: len(ids_so_far(out)) > number - 100)
            process.kill()
            await process.wait()
            if random.random() < 0.6:
                with open(out, "ab") as file:
                    file.write(b'{"id": "e')  # torn
            await publish(random.randrange(50))
            process = await subscriber()
        await publish(20)
        await until(lambda: len(ids_so_far(out)) >= number)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert ids(out) == [f"e{each}" for each in range(number)]


def ids_so_far(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_subscriber_ends_clean_and_starts_where_it_was(number: int, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    @alone
    async def check() -> None:
        async with broker(tmp_path / "data") as hall, connect(hall.endpoint) as seller:
            asked = ("subscribe", "--at", str(hall.endpoint), "--topic", "quotes", "--out", str(out))
            process = await run(*asked)
            named = (await first_line(process)).split()[2]
            await seller.publish(Event("e1", "quotes"))
            await until(lambda: ids_so_far(out) != [])
            process.send_signal(number)
            _, told = await process.communicate()
            assert (process.returncode, told.decode()) == (0, "1 events written\n")
            await seller.publish(Event("e2", "quotes"))
            process = await run(*asked, "--count", "1")
            assert (await first_line(process)).split()[2] == named, "the name that was made up is kept"
            assert await process.wait() == 0
            assert ids(out) == ["e1", "e2"]
            other = await run(*asked, "--where", "price > 1")
            _, told = await other.communicate()
            assert other.returncode == 2
            assert "the place that is kept is that of another subscription" in told.decode()

    check()


@alone
async def test_standard_output_with_a_place_of_its_own(tmp_path: Path) -> None:
    state = tmp_path / "place"
    async with broker(tmp_path / "data") as hall, connect(hall.endpoint) as seller:
        asked = ("subscribe", "--at", str(hall.endpoint), "--topic", "quotes", "--state", str(state))
        process = await run(*asked, "--count", "2", stdout=PIPE)
        await first_line(process)
        await seller.publish(*(Event(f"e{number}", "quotes") for number in range(4)))
        written, _ = await process.communicate()
        assert [json.loads(line)["id"] for line in written.splitlines()] == ["e0", "e1"]
        process = await run(*asked, "--count", "2", stdout=PIPE)
        written, _ = await process.communicate()
        assert [json.loads(line)["id"] for line in written.splitlines()] == ["e2", "e3"]


# The file of a subscriber.

SESSION = SessionState((Subscription("s1", "ann", topic="A"),), Offset(1.0, 7))


def test_lines_that_were_not_noted_are_known_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = SubscribedFile(str(out), None)
    assert first.session is None
    assert [first.write(Event(id, "A")) for id in ("e1", "e2")] == [True, True]
    first.note(SESSION)
    first.write(Event("e3", "A", {"source": "exchange"}))
    first._stream.write(b'{"id": "e4", "to')
    first.close()
    again = SubscribedFile(str(out), None)
    assert again.session == SESSION
    assert len(out.read_bytes().split(b"\n")) == 4
    again_written = [again.write(Event(id, "A", {"source": "exchange"})) for id in ("e2", "e3", "e4")]
    assert again_written == [True, False, True], "an event is known by its source and id"
    again.close()
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["e1", "e2", "e3", "e2", "e4"]


@pytest.mark.parametrize("length", [0, 10, 70_000, 140_000])
def test_a_torn_line_is_cut_off_however_long_it_is(tmp_path: Path, length: int) -> None:
    out = tmp_path / "out"
    for whole in (b"", b'{"id": "e1"}\n'):
        first = SubscribedFile(str(out), None)
        first._stream.write(whole + b"x" * length)
        first.close()
        again = SubscribedFile(str(out), None)
        again.close()
        assert out.read_bytes() == whole
        assert again._known == ({Event("e1").key} if whole else set())
        out.unlink()


def test_all_that_was_not_noted_is_known_and_of_the_rest_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributary.cli.subscribed_file.BLOCK", 50)
    for remembered, noted, least in ((3, 20, 3), (3, 5, 15), (100, 20, 20)):
        monkeypatch.setattr("distributary.cli.subscribed_file.REMEMBERED", remembered)
        out = tmp_path / f"{remembered} {noted}"
        first = SubscribedFile(str(out), None)
        for number in range(20):
            first.write(Event(f"e{number}", "A"))
            if number == noted - 1:
                first.note(SESSION)
        first.close()
        again = SubscribedFile(str(out), None)
        known = {int(key.id[1:]) for key in again._known}
        assert known == set(range(20 - len(known), 20))
        assert least <= len(known) <= least + 5
        again.close()


def test_what_was_in_the_file_before_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"of somebody else, without an end")
    SubscribedFile(str(out), None).close()
    assert out.read_bytes() == b"of somebody else, without an end"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"written": 1, "session": {}}', '{"written": "a", "session": null}']
)
def test_a_damaged_session_is_told(tmp_path: Path, text: str) -> None:
    state = tmp_path / "place"
    state.write_text(text)
    with pytest.raises(
        DistributaryError, match=r"place is no session of distributary subscribe: .*remove it"
    ):
        SubscribedFile(str(tmp_path / "out"), state)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="cannot be written: Is a directory"):
        SubscribedFile(str(tmp_path), None)


def test_a_session_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SubscribedFile(str(tmp_path / "out"), None)
    file.note(SESSION)

    def fail(path: Path, target: Path) -> None:
        raise OSError("the machine ends here")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="ends here"):
            file.note(SESSION._replace(offset=Offset(1.0, 8)))
    file.close()
    again = SubscribedFile(str(tmp_path / "out"), None)
    assert again.session == SESSION
    assert json.loads((tmp_path / "out.session").read_text())["session"] == session_record(SESSION)
    again.close()


def test_a_system_or_setting_that_there_is_not_is_a_wrong_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["network", "up", "--nodes", "2", "--dir", str(tmp_path / "plant")]
    assert main([*where, "--system", "oracle"]) == 2
    assert "no system 'oracle'" in capsys.readouterr().err
    assert main([*where, "--set", "height=3"]) == 2
    assert "has no setting 'height'" in capsys.readouterr().err
    assert not (tmp_path / "plant").exists()


def test_the_systems_listed_are_those_that_a_network_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "list", "--settings"]) == 0
    listed = {line.split("│")[1].strip() for line in capsys.readouterr().out.splitlines() if "│" in line}
    assert listed >= {*SYSTEMS, "queries"}
