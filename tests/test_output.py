"""Files that are written: nothing that is there is harmed, and what goes wrong is one sentence."""

from __future__ import annotations

import os
import random
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from devices import own_device
from distributary.errors import DistributaryError
from distributary.output import opened_for_bytes, opened_for_writing, opened_log, require_distinct


def write(name: Path | str, text: str = "new\n") -> None:
    with opened_for_writing(str(name)) as stream:
        stream.write(text)


def write_log(name: str) -> None:
    with opened_log(name)[0] as stream:
        stream.write("x\n")


def test_a_device_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    device = own_device(tmp_path, "null")
    write(device)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert [each for each in tmp_path.iterdir() if each != device] == []


def test_a_pipe_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(pipe)
        assert os.read(reader, 100) == b"new\n"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("there", [True, False], ids=["target there", "target missing"])
def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "deep" / "target", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_text("old\n")
    link.symlink_to(target)
    write(link)
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert [each.name for each in target.parent.iterdir()] == ["target"]


def test_a_link_in_the_place_of_the_partial_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    (tmp_path / "out.partial").symlink_to(victim)
    write(tmp_path / "out")
    assert victim.read_text() == "precious\n"
    assert (tmp_path / "out").read_text() == "new\n"


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old\n")
    path.chmod(0o600)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_breaks_off_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old\n")

    def break_off() -> None:
        with opened_for_writing(str(path)) as stream:
            stream.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert path.read_text() == "old\n"
    assert (tmp_path / "out.partial").read_text() == "half"


UNWRITABLE: dict[str, Callable[[Path], str]] = {
    "a directory": str,
    "a new directory": lambda where: f"{where}/new/",
    "below a file": lambda where: f"{where}/file/out",
    "a full disk": lambda where: str(own_device(where, "full")),
    "too long a name": lambda where: f"{where}/{'x' * 300}",
    "a loop of links": lambda where: f"{where}/loop",
}


@pytest.mark.parametrize("open", [write, write_log])
@pytest.mark.parametrize("place", UNWRITABLE)
def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, place: str, open: Callable[[str], object]
) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DistributaryError, match=r"^cannot write [^\n]*: [^\n]*$"):
        open(UNWRITABLE[place](tmp_path))
    assert (tmp_path / "file").read_text() == "precious"


def test_a_log_keeps_those_of_earlier_runs(tmp_path: Path) -> None:
    place = tmp_path / "quarantine.jsonl"
    kept = []
    for run in ("first\n", "second\n", "third\n"):
        stream, earlier = opened_log(str(place))
        with stream:
            stream.write(run)
        kept.append(earlier)
    assert kept == [None, tmp_path / "quarantine.jsonl.1", tmp_path / "quarantine.jsonl.2"]
    texts = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert texts == {
        "quarantine.jsonl": "third\n",
        "quarantine.jsonl.1": "first\n",
        "quarantine.jsonl.2": "second\n",
    }


def test_a_log_is_there_line_by_line(tmp_path: Path) -> None:
    stream, _ = opened_log(str(tmp_path / "log"))
    with stream:
        stream.write("one\n")
        assert (tmp_path / "log").read_text() == "one\n"


def same(tmp_path: Path) -> dict[str, str]:
    """Names of one file."""
    real = tmp_path / "real"
    real.write_text("")
    (tmp_path / "link").symlink_to(real)
    os.link(real, tmp_path / "hard")
    return {
        "the same name": str(real),
        "another way there": f"{tmp_path}/../{tmp_path.name}/real",
        "a symbolic link": str(tmp_path / "link"),
        "a hard link": str(tmp_path / "hard"),
    }


@pytest.mark.parametrize("how", ["the same name", "another way there", "a symbolic link", "a hard link"])
def test_one_file_cannot_be_read_and_written_whatever_its_names(tmp_path: Path, how: str) -> None:
    names = same(tmp_path)
    with pytest.raises(DistributaryError, match=r"--out and --events are the same file"):
        require_distinct({"--events": names["the same name"]}, {"--out": names[how]})
    with pytest.raises(DistributaryError, match=r"--quarantine and --out are the same file"):
        require_distinct({}, {"--out": names["the same name"], "--quarantine": names[how]})


def test_the_partial_file_of_an_output_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "out.partial").write_text("half")
    with pytest.raises(DistributaryError, match="the same file"):
        require_distinct({"--events": str(tmp_path / "out.partial")}, {"--out": str(tmp_path / "out")})


def test_files_that_are_not_there_yet_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    require_distinct({}, {"--out": str(tmp_path / "a"), "--quarantine": str(tmp_path / "b")})
    with pytest.raises(DistributaryError, match="the same file"):
        require_distinct({}, {"--out": f"{tmp_path}/x/../a", "--quarantine": str(tmp_path / "a")})


def test_devices_may_serve_several_purposes() -> None:
    require_distinct({"--events": "/dev/null"}, {"--out": "/dev/null", "--quarantine": "/dev/null"})


class SignalledError(Exception):
    """What a signal raises wherever the program is."""


def test_a_signal_in_the_midst_of_writing_writes_nothing_twice(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise SignalledError

    before = signal.signal(signal.SIGALRM, interrupt)
    rng, interrupted, written = random.Random(1), 0, 0
    try:
        for number in range(300):
            target = tmp_path / f"{number}.txt"
            try:
                with opened_for_bytes(str(target)) as stream:
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 2e-3))
                    for line in range(100_000):
                        stream.write(b"%d\n" % line)
                        stream.flush()
            except SignalledError:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            partial = tmp_path / f"{number}.txt.partial"
            if partial.exists():  # else the signal came before the first line, and nothing is left
                lines = partial.read_bytes().split()
                assert lines == [b"%d" % line for line in range(len(lines))]
                written += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted == 300
    assert written > 100
