"""Commands harm nothing: not input, devices, links or earlier quarantines; what goes wrong is a sentence."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from devices import own_device
from distributary.cli.main import main
from distributary.kernel.progress import COMPILING

SUBSCRIPTION = {"id": "s1", "subscriber": "ann", "topic": "A"}
EVENTS = [{"id": "e1", "topic": "A"}, {"id": "e2", "topic": "A/B"}, {"id": "e3", "topic": "C"}]
BAD = "not json"


def write(path: Path, records: list[Any]) -> Path:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with subscriptions and events, one of which is malformed."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "subs.jsonl", [SUBSCRIPTION])
    write(tmp_path / "events.jsonl", [*EVENTS, BAD])
    return tmp_path


def match(*more: str, events: str = "events.jsonl") -> int:
    return main(["match", "--subscriptions", "subs.jsonl", "--events", events, *more])


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    told = capsys.readouterr().err.replace(COMPILING, "").strip()  # told by whichever test is the first
    assert told.startswith("distributary: ")
    assert "\n" not in told
    return told


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of wrong arguments."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("output", ["--out", "--quarantine"])
@pytest.mark.parametrize("read", ["events.jsonl", "subs.jsonl"])
@pytest.mark.parametrize("kind", ["same", "link", "hard link"])
def test_input_and_output_that_are_one_file_are_refused(
    place: Path, output: str, read: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path(read).read_bytes()
    name = read if kind == "same" else "other"
    if kind == "link":
        Path("other").symlink_to(read)
    if kind == "hard link":
        os.link(read, "other")
    assert match(output, name) == 2
    assert "the same file" in one_sentence(capsys)
    assert Path(read).read_bytes() == before
    assert not list(place.glob("*.partial"))


def test_a_quarantine_that_is_read_again_is_not_overwritten_by_its_default(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place / "quarantine.jsonl", [BAD])
    assert match("--out", "out.jsonl", events="quarantine.jsonl") == 2
    assert "--quarantine and --events are the same file" in one_sentence(capsys)
    assert (place / "quarantine.jsonl").read_text() == BAD + "\n"


def test_output_into_a_device_leaves_the_device_and_nothing_beside_it(place: Path) -> None:
    (place / "devices").mkdir()
    device = own_device(place / "devices", "null")
    assert match("--out", str(device)) == 3
    assert stat.S_ISCHR(device.stat().st_mode)
    assert [each for each in (place / "devices").iterdir() if each != device] == []
    assert (place / "quarantine.jsonl").exists()


def test_output_goes_to_the_target_of_a_link(place: Path) -> None:
    (place / "elsewhere").mkdir()
    (place / "out.jsonl").symlink_to("elsewhere/real.jsonl")
    assert match("--out", "out.jsonl") == 3
    assert (place / "out.jsonl").is_symlink()
    assert len((place / "elsewhere" / "real.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("option", ["--out", "--quarantine"])
@pytest.mark.parametrize("name", ["folder", "full", "events.jsonl/below", "/proc/nowhere/out"])
def test_what_cannot_be_written_is_told_in_a_sentence(
    place: Path, option: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "folder").mkdir()
    if name == "full":
        name = str(own_device(place, "full"))
    assert match(option, name) == 1
    assert f"cannot write {name}" in one_sentence(capsys)


def test_the_quarantine_of_an_earlier_run_is_kept(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert match("--out", "out.jsonl") == 3
    first = (place / "quarantine.jsonl").read_text()
    write(place / "events.jsonl", ["[]"])
    assert match("--out", "out.jsonl") == 3
    assert (place / "quarantine.jsonl.1").read_text() == first
    assert "a JSON object, not an array" in (place / "quarantine.jsonl").read_text()
    assert "quarantine.jsonl.1" in capsys.readouterr().err


def test_the_quarantine_of_an_earlier_run_is_not_taken_for_that_of_one_that_sets_nothing_aside(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place / "quarantine.jsonl", [BAD])
    write(place / "good.jsonl", [EVENTS[0]])
    assert match("--out", "out.jsonl", events="good.jsonl") == 0
    assert not (place / "quarantine.jsonl").exists()
    assert (place / "quarantine.jsonl.1").read_text() == BAD + "\n"
    assert "earlier run had set aside is kept in" in capsys.readouterr().err
    assert match("--out", "out.jsonl", events="good.jsonl") == 0
    assert "earlier" not in capsys.readouterr().err
    assert not (place / "quarantine.jsonl.2").exists()


def test_a_run_that_sets_nothing_aside_or_fails_leaves_what_is_no_quarantine_of_its_own(place: Path) -> None:
    write(place / "good.jsonl", [EVENTS[0]])
    (place / "directory").mkdir()
    for name in ("/dev/null", "directory", "nowhere/q.jsonl"):
        assert match("--out", "out.jsonl", "--quarantine", name, events="good.jsonl") == 0
    assert not (place / "nowhere").exists()
    write(place / "quarantine.jsonl", [BAD])
    assert match("--out", "out.jsonl", "--strict") == 4
    assert (place / "quarantine.jsonl").read_text() == BAD + "\n"


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_a_table_is_written_where_the_ending_says_so(place: Path, ending: str) -> None:
    read = parquet.read_table if ending == "parquet" else feather.read_table
    assert match("--out", f"out.{ending}") == 3
    assert read(f"out.{ending}").to_pylist() == [
        {"event": "e1", "subscription": "s1"},
        {"event": "e2", "subscription": "s1"},
    ]
    assert match("--deliveries", "--chunk", "1", "--out", f"out.{ending}") == 3
    assert read(f"out.{ending}").to_pylist()[1] == {
        "event": "e2",
        "subscriber": "ann",
        "subscriptions": ["s1"],
    }


def test_a_table_without_rows_is_read_and_written(place: Path) -> None:
    parquet.write_table(pa.table({"id": pa.array([], pa.string())}), "none.parquet")
    assert match("--out", "out.parquet", events="none.parquet") == 0
    assert parquet.read_table("out.parquet").num_rows == 0
    parquet.write_table(pa.table({"id": pa.array([], pa.string())}), "subs.parquet")
    arguments = ["--subscriptions", "subs.parquet", "--events", "none.parquet", "--out", "out.parquet"]
    assert main(["match", *arguments]) == 0


def test_bytes_of_a_table_that_are_not_utf8_are_set_aside_by_themselves(place: Path) -> None:
    names = pa.array([b"e1", b"\xff", b"e3"]).view(pa.string())
    topics = pa.array([b"A", b"A", b"A/caf\xe9"]).view(pa.string())
    feather.write_feather(pa.table({"id": names, "topic": topics}), "events.arrow")
    assert match("--out", "out.jsonl", events="events.arrow") == 3
    assert (place / "out.jsonl").read_text() == '{"event": "e1", "subscription": "s1"}\n'
    told = [json.loads(line) for line in (place / "quarantine.jsonl").read_text().splitlines()]
    assert [(one["place"], one["field"], one["reason"][:28]) for one in told] == [
        ("events.arrow row 1", "id", "not UTF-8: 0xff at byte 0; w"),
        ("events.arrow row 2", "topic", "not UTF-8: 0xe9 at byte 5; w"),
    ]
    assert "A/caf\\\\xe9" in told[1]["record"]


MATCH = "match --subscriptions s --events e"
NONSENSE = [
    *(f"{MATCH} --chunk {number}" for number in ("-5", "0", "many", "1.5", "9" * 30)),
    *(
        f"{MATCH} --engine {engine}"
        for engine in ("nope=x", "topic=fastest", "topic", "change=x", "=tree", "path=bloom:x")
    ),
    *(f"generate topics --{what} {number}" for what in ("events", "subscriptions") for number in ("0", "-1")),
    "generate topics --seed -1",
    *(f"demo --{what} 0" for what in ("events", "subscriptions")),
    "demo --seed x",
    "run p.toml --grace -1",
    "run p.toml --grace nan",
    "replay p.toml --subscriber ann --after-batch -2",
    "replay p.toml --subscriber ann --since yesterday",
    *(f"sim run calm --system central --{what} 0" for what in ("nodes", "events", "seeds", "gap")),
    "sim run calm --system central --subscriptions -1",
    "sim run calm --system central --gap inf",
    *(f"sim queries --{what} 0" for what in ("nodes", "queries", "feeds", "count", "seconds", "period")),
    *(f"sim queries --{what} -1" for what in ("changes", "gone", "seed")),
    "sim queries --told nobody",
    "plan sites.toml --seed half",
    "lab run all --jobs 0",
    "lab run all --point -1",
    *(
        f"subscriptions --store s add --id a --subscriber b --change {text}"
        for text in ("x", "x=-1", "x=nan")
    ),
    "subscriptions --store s list --version -1",
]
"""Arguments that cannot be meant, of every command that takes numbers."""


@pytest.mark.parametrize("arguments", NONSENSE)
def test_nonsense_is_refused_with_what_would_be_right(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(arguments.split(), capsys).splitlines()[-1]
    assert "takes" in told or "choose" in told


def files_that_are_one(place: Path) -> dict[str, list[str]]:
    """Commands that would overwrite what they read, or write two things to one place."""
    (place / "sites.toml").write_text("")
    (place / "pipeline.toml").write_text(
        'checkpoint = "c"\n[source]\nformat = "rate"\n[events]\nid = "value"\n[subscriptions]\n'
        'store = "s"\n[sink]\npath = "d"\n'
    )
    return {
        "plan": ["plan", "sites.toml", "--json", "sites.toml"],
        "plan twice": ["plan", "sites.toml", "--json", "new.json", "--svg", "./new.json"],
        "import": ["subscriptions", "--store", "s", "import", "subs.jsonl", "--quarantine", "subs.jsonl"],
        "trace": ["sim", "queries", "sites.toml", "--trace", "sites.toml"],
        "run": ["run", "pipeline.toml", "--log", "pipeline.toml"],
    }


@pytest.mark.parametrize("command", ["plan", "plan twice", "import", "trace", "run"])
def test_no_command_overwrites_what_it_reads(
    place: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = files_that_are_one(place)[command]
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    assert main(arguments) == 2
    assert "the same file" in one_sentence(capsys)
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


COMMAND = [sys.executable, "-m", "distributary.cli"]


def started(*arguments: str, **given: Any) -> subprocess.Popen[bytes]:
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
    # A shell that starts the tests in the background has them, and what they start, ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen([*COMMAND, *arguments], **piped)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_package_of_commands_is_the_command() -> None:
    with started("--version") as running:
        out, _ = running.communicate(timeout=120)
    assert running.returncode == 0
    assert out.startswith(b"distributary ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_what_was_set_aside(place: Path, number: signal.Signals) -> None:
    arguments = ["--subscriptions", "subs.jsonl", "--events", "-", "--out", "out.jsonl"]
    with started("match", *arguments) as running:
        assert running.stdin is not None
        running.stdin.write(f"{BAD}\n{json.dumps(EVENTS[0])}\n".encode())
        running.stdin.flush()
        quarantine, partial = place / "quarantine.jsonl", place / "out.jsonl.partial"
        while not (quarantine.exists() and partial.exists() and partial.stat().st_size):
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(number)
        running.wait(timeout=120)  # with its input open: the signal alone ends it
        _, told = running.communicate()
    assert running.returncode == 1
    assert told.decode().splitlines()[-1] in ("distributary: terminated", "distributary: interrupted")
    assert "not JSON" in quarantine.read_text()
    assert not (place / "out.jsonl").exists()
    assert len(partial.read_text().splitlines()) == 1


def test_a_full_standard_output_is_told_in_a_sentence(place: Path) -> None:
    with (
        open("/dev/full", "wb") as full,
        started("match", "--subscriptions", "subs.jsonl", "--events", "events.jsonl", stdout=full) as running,
    ):
        _, told = running.communicate(timeout=120)
    assert running.returncode == 1
    assert told.decode().strip() == "distributary: No space left on device"
