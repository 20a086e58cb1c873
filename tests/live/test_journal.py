"""The disk of a node: what is safe comes back, what is damaged is told, and nothing else ever comes back."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.disks import TrialDisks
from distributary.errors import DamagedError, DistributaryError
from distributary.live.journal import FILE, WRITE_AHEAD, Journal
from distributary.live.write_ahead import safe_frames_lost
from distributary.model import Event, EventKey
from distributary.overlay.node import Store
from live.loops import LONGEST, alone, until
from properties.examples import examples
from replay import replayed_by

Contents = dict[str, Any]


def fail(error: DistributaryError) -> None:
    raise AssertionError(error)


async def safe(journal: Journal, *stores: Store) -> None:
    """Write values, and wait until they are safe."""
    written = asyncio.Event()
    journal.write(stores, written.set)
    await written.wait()


def opened(directory: Path) -> Contents:
    """What a process that starts now finds."""

    async def look() -> Contents:
        journal = Journal(directory, fail)
        found = journal.open()
        await journal.close()
        return found

    return asyncio.run(look())


def event(number: int, text: str = "") -> Event:
    return Event(f"e{number}", "quotes/OTE", {"price": number, "text": text})


@alone
async def test_what_was_stored_comes_back_in_the_order_of_the_names(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "new", fail)
    assert journal.open() == {}
    await safe(journal, Store("a", event(1)), Store("b", EventKey("ann", "e1")), Store("c", event(3)))
    await safe(journal, Store("a", event(2)), Store("b", None))
    await safe(journal, Store("b", event(4)), Store("never", None))
    await journal.close()
    again = Journal(tmp_path / "new", fail)
    found = again.open()
    assert list(found.items()) == [("a", event(2)), ("c", event(3)), ("b", event(4))]
    await again.close()


@alone
async def test_what_gathers_while_one_transaction_is_written_is_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    commit = Journal._commit

    def counted(journal: Journal, rows: list[Any]) -> None:
        sizes.append(len(rows))
        commit(journal, rows)

    monkeypatch.setattr(Journal, "_commit", counted)
    journal = Journal(tmp_path, fail)
    journal.open()
    done: list[int] = []
    journal.write([Store("first", event(0))], lambda: done.append(0))
    await asyncio.sleep(0)
    for number in range(1, 500):
        journal.write([Store(f"e{number}", event(number))], lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == [], "nothing is safe before it was written"
    await until(lambda: len(done) == 500)
    assert done == list(range(500))
    assert sizes == [1, 499]
    await journal.close()


@alone
async def test_what_one_then_does_is_kept_for_the_next_transaction(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fail)
    journal.open()
    done = asyncio.Event()
    journal.write([Store("a", event(1))], lambda: journal.write([Store("b", event(2))], done.set))
    await done.wait()
    await journal.close()
    again = Journal(tmp_path, fail)
    assert list(again.open()) == ["a", "b"]
    await again.close()


@alone
async def test_a_second_process_is_told_of_the_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fail)
    journal.open()
    await safe(journal, Store("a", event(1)))
    script = f"from distributary.live.journal import *; Journal(Path({str(tmp_path)!r}), print).open()"
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=LONGEST
    )
    assert (
        f"{tmp_path} is in use by process {os.getpid()}: give each node a directory of its own" in ran.stderr
    )
    await safe(journal, Store("b", event(2)))
    await journal.close()
    again = Journal(tmp_path, fail)
    assert list(again.open()) == ["a", "b"]
    await again.close()


WRITER = """
import asyncio, sys
from distributary.live.journal import *
from distributary.model import Event
async def write():
    journal = Journal(Path(sys.argv[1]), print)
    journal.open()
    number = 0
    while True:
        number += 1
        safe = asyncio.Event()
        stores = [Store(f"e{number}", Event(f"e{number}", attributes={"text": "x" * (number % 977)}))]
        stores += [Store(f"e{number - 50}", None)] if number > 50 else []
        journal.write(stores + [Store("last", Event(f"e{number}"))], safe.set)
        await safe.wait()
        print(number, flush=True)
asyncio.run(write())
"""


def test_a_process_that_is_killed_has_lost_nothing_that_was_safe(tmp_path: Path) -> None:
    for lines in (1, 60, 400):
        directory = tmp_path / str(lines)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, directory], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(lines):
            writer.stdout.readline()
        writer.kill()
        told = int((writer.stdout.read().split() or [lines])[-1])
        writer.wait()
        writer.stdout.close()
        found = opened(directory)
        last = int(found["last"].id[1:])
        assert last in (max(told, lines), max(told, lines) + 1)
        assert set(found) == {"last", *(f"e{number}" for number in range(max(1, last - 49), last + 1))}
        assert all(
            len(found[f"e{n}"].attributes["text"]) == n % 977 for n in range(max(1, last - 49), last + 1)
        )


# Damage.


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Contents]]:
    """The files of a node that was killed, and what they held after each transaction."""
    directory = tmp_path_factory.mktemp("history")
    states: list[Contents] = [{}]
    random = Random(5)

    async def write() -> None:
        journal = Journal(directory / "live", fail)
        journal.open()
        for number in range(60):
            stores = []
            state = dict(states[-1])
            for _ in range(random.randint(1, 4)):
                name = f"name{random.randrange(40)}"
                value = event(number, "x" * random.choice([1, 50, 6_000])) if random.random() < 0.8 else None
                stores.append(Store(name, value))
                state.pop(name, None) if value is None else state.update({name: value})
            await safe(journal, *stores)
            states.append(state)
            if number == 30:  # half is in the file, half in the write-ahead log
                assert journal._database is not None
                journal._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        shutil.copytree(directory / "live", directory / "killed")
        await journal.close()

    asyncio.run(write())
    assert (directory / "killed" / WRITE_AHEAD).stat().st_size > 150_000
    return directory / "killed", states


def damage(random: Random, directory: Path) -> str:
    """Do something to one of the files; says what."""
    file = directory / random.choice([FILE, WRITE_AHEAD])
    size = file.stat().st_size
    place = random.randrange(size)
    match random.choice(["cut", "flip", "write", "zero"]):
        case "cut":
            os.truncate(file, place)
            return f"{file.name} cut at {place} of {size}"
        case how:
            with open(file, "r+b") as stream:
                stream.seek(place)
                length = {"flip": 1, "write": random.randrange(1, 64), "zero": 4096}[how]
                before = stream.read(length)
                stream.seek(place)
                bits = bytes(byte ^ (1 << random.randrange(8)) for byte in before)
                stream.write({"flip": bits, "write": random.randbytes(length), "zero": bytes(length)}[how])
            return f"{how} of {length} at {place} of {file.name}, which has {size}"


def opened_or_damaged(directory: Path) -> Contents | None:
    """What is there; None when it is damaged, and that is told well."""
    try:
        return opened(directory)
    except DamagedError as error:
        told = str(error)
    assert told.startswith(f"{directory / FILE} is damaged: ")
    assert f"; it was set aside in {directory / 'damaged-1'}. Start the node again" in told
    return None


def test_damaged_files_give_what_was_there_at_some_time_or_an_error(
    history: tuple[Path, list[Contents]], tmp_path: Path
) -> None:
    killed, states = history
    assert opened(shutil.copytree(killed, tmp_path / "whole")) == states[-1]
    outcomes = {"error": 0, "before": 0, "last": 0}
    for seed in range(examples(80)):
        random = Random(seed)
        directory = shutil.copytree(killed, tmp_path / "damaged")
        what = damage(random, directory)
        with replayed_by(f"seed {seed}: {what}"):
            found = opened_or_damaged(directory)
            if found is None:
                outcomes["error"] += 1
                assert opened(directory) == {}, "what is damaged is not used"
            else:
                torn = what.startswith(WRITE_AHEAD) and "cut" in what
                assert found in (states if torn else states[-2:]), "nothing safe is lost in silence"
                outcomes["last" if found == states[-1] else "before"] += 1
        shutil.rmtree(directory)
    assert all(outcomes.values()), outcomes


def test_a_value_that_somebody_changed_or_removed_is_noticed(
    history: tuple[Path, list[Contents]], tmp_path: Path
) -> None:
    killed, states = history
    name = next(iter(states[-1]))
    for number, (change, reason) in enumerate(
        {
            "UPDATE stored SET value = x'93021fa0' WHERE name = ?": f"the value of '{name}' is not what was",
            "UPDATE stored SET name = name || '!' WHERE name = ?": f"the value of '{name}!' is not what was",
            "DELETE FROM stored WHERE name = ?": "values are missing or too many",
        }.items()
    ):
        directory = shutil.copytree(killed, tmp_path / str(number))
        with sqlite3.connect(directory / FILE) as database:
            database.execute(change, (name,))
        database.close()
        with pytest.raises(DamagedError, match=reason):
            opened(directory)
        assert (directory / "damaged-1" / FILE).exists()
        assert opened(directory) == {}


def test_a_log_without_its_file_is_noticed(history: tuple[Path, list[Contents]], tmp_path: Path) -> None:
    directory = shutil.copytree(history[0], tmp_path / "copy")
    (directory / FILE).unlink()
    with pytest.raises(DamagedError, match=f"there is a {WRITE_AHEAD} without it"):
        opened(directory)


def test_a_hole_in_the_log_is_told_from_a_torn_end(
    history: tuple[Path, list[Contents]], tmp_path: Path
) -> None:
    whole = (history[0] / WRITE_AHEAD).read_bytes()
    log = tmp_path / "log"
    frames = (len(whole) - 32) // (24 + 4096)
    for torn in (b"", whole[:10], whole[: 32 + 24 + 4000], whole[:-1], whole[:-5_000], whole + bytes(5_000)):
        log.write_bytes(torn)
        assert not safe_frames_lost(log)
    for place in (0, 9, 17, 25, 32, 40, 50, 60, 32 + (frames // 2) * (24 + 4096) + 100):
        log.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert safe_frames_lost(log), place


def test_what_another_version_wrote_is_told_and_left_alone(tmp_path: Path) -> None:
    assert opened(tmp_path) == {}
    database = sqlite3.connect(tmp_path / FILE)
    database.execute("PRAGMA user_version = 7")
    database.close()
    for _ in range(2):
        with pytest.raises(DistributaryError, match=r"is of a later version \(7\) than this one reads \(1\)"):
            opened(tmp_path)


def test_a_value_of_a_kind_that_is_not_known_is_told_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store() -> None:
        journal = Journal(tmp_path, fail)
        journal.open()
        await safe(journal, Store("a", event(1)))
        await journal.close()

    with monkeypatch.context() as patch:
        patch.setattr("distributary.live.journal.encode", lambda value: b"\x91\xcd\xff\xff")
        asyncio.run(store())
    for _ in range(2):
        with pytest.raises(DistributaryError, match="holds 'a', which this version cannot read"):
            opened(tmp_path)


# Disks that fail.


@alone
async def test_a_full_disk_is_told_once_and_nothing_that_was_safe_is_lost(tmp_path: Path) -> None:
    told: list[str] = []
    journal = Journal(tmp_path, lambda error: told.append(str(error)))
    journal.open()
    await safe(journal, Store("a", event(1)))
    assert journal._database is not None
    journal._database.execute("PRAGMA max_page_count = 8").fetchall()
    done: list[str] = []
    journal.write([Store("large", event(2, "x" * 100_000))], lambda: done.append("large"))
    await asyncio.sleep(0)
    journal.write([Store("small", event(3))], lambda: done.append("small"))
    await until(lambda: bool(told))
    journal.write([Store("later", event(4))], lambda: done.append("later"))
    await asyncio.sleep(0.05)
    assert done == []
    assert told == [
        f"{tmp_path / FILE} cannot be written: database or disk is full. Nothing is accepted here any more,"
        " and what was acknowledged is safe: make room or mend the disk, and start the node again"
    ]
    await journal.close()
    again = Journal(tmp_path, fail)
    assert again.open() == {"a": event(1)}
    await again.close()


@alone
async def test_a_disk_that_is_full_is_told_though_the_files_have_room_of_their_own(tmp_path: Path) -> None:
    disks, told = TrialDisks(tmp_path), list[str]()
    disks.mount("hall")
    try:
        if not disks.stays_full("hall"):
            pytest.skip("no file system can be mounted here")
        journal = Journal(tmp_path / "hall.data", lambda error: told.append(str(error)))
        journal.open()
        for number in range(6):  # beyond four megabytes the log is used again from its beginning
            await safe(journal, Store("a", event(number, str(number) * 1_000_000)))
        disks.fill("hall", 0)
        journal.write([Store("b", event(7))], lambda: told.append("written"))
        await until(lambda: bool(told))
        assert [each.split(": ")[1] for each in told] == [
            "its disk is full (0 KB are left, and a node needs 4,096). Nothing is accepted here any more, and"
            " what was acknowledged is safe"
        ]
        await journal.close()
        disks.fill("hall", 0)
        again = Journal(tmp_path / "hall.data", fail)
        with pytest.raises(DistributaryError, match=r"is full .* make room, and start the node again"):
            again.open()
        disks.make_room("hall")
        assert again.open() == {"a": event(5, "5" * 1_000_000)}
        await again.close()
    finally:
        disks.release()


def test_opening_writes_to_the_disk(tmp_path: Path) -> None:
    assert opened(tmp_path) == {}
    journal = Journal(tmp_path, fail)
    assert journal.open() == {}
    assert (tmp_path / WRITE_AHEAD).stat().st_size > 0
    asyncio.run(journal.close())


LIMITED = """
import asyncio, resource, sys
from distributary.live.journal import *
from distributary.model import Event
async def write():
    failed = asyncio.Event()
    def fail(error):
        print(error, file=sys.stderr)
        failed.set()
    journal = Journal(Path(sys.argv[1]), fail)
    journal.open()
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    for number in range(10_000):
        safe = asyncio.Event()
        journal.write([Store(f"e{number}", Event(f"e{number}", attributes={"text": "x" * 3000}))], safe.set)
        waits = {asyncio.ensure_future(safe.wait()), asyncio.ensure_future(failed.wait())}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if failed.is_set():
            break
        print(number)
asyncio.run(write())
"""


def test_a_write_that_the_system_refuses_is_told_and_nothing_that_was_safe_is_lost(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, timeout=LONGEST
    )
    assert ran.stderr.count("cannot be written: ") == 1, ran.stderr
    kept = [f"e{number}" for number in ran.stdout.split()]
    assert 10 < len(kept) < 200
    assert list(opened(tmp_path))[: len(kept)] == kept


@alone
async def test_a_value_that_cannot_be_put_in_bytes_ends_the_journal(tmp_path: Path) -> None:
    told: list[str] = []
    journal = Journal(tmp_path, lambda error: told.append(str(error)))
    journal.open()
    journal.write([Store("a", ("no", "message"))], lambda: told.append("safe"))
    await asyncio.sleep(0.01)
    assert [each.split(": ")[1][:24] for each in told] == ["a tuple is no message"]
    await journal.close()


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DistributaryError, match="file/data cannot be used: Not a directory"):
        opened(tmp_path / "file" / "data")
