"""The log of messages: what was appended is there after any crash, under its offset, and once."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DamagedError, DistributaryError
from distributary.spark.connectors import message_log
from distributary.spark.connectors.message_log import MessageLog, read_range
from distributary.spark.connectors.mqtt.message import LoggedMessage


def message(payload: bytes, packet: int = 0) -> LoggedMessage:
    return LoggedMessage("a/b", payload, 1, False, 7, packet)


def payloads(log: MessageLog, start: int, end: int, rows: int = 3) -> list[bytes]:
    return [each.payload for one in log.ranges(start, end, rows) for each in read_range(one, LoggedMessage)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.binary(max_size=40), min_size=1, max_size=5)),
        st.tuples(st.just("commit"), st.integers(0, 60)),
        st.tuples(st.just("crash"), st.binary(max_size=20)),
    ),
    max_size=25,
)


@given(STEPS)
def test_what_was_appended_is_read_by_offset_after_commits_and_crashes(
    steps: list[tuple[str, object]],
) -> None:
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_log, "KEPT", 4)
        log = MessageLog(place, LoggedMessage, segment=60)
        wanted: list[bytes] = []
        committed = 0
        for kind, value in steps:
            if kind == "append":
                assert isinstance(value, list)
                log.append([message(each) for each in value])
                wanted += value
            elif kind == "commit":
                assert isinstance(value, int)
                committed = max(committed, min(value, log.end))
                log.commit(min(value, log.end))
            else:
                assert isinstance(value, bytes)
                log.close()
                last = max(Path(place).glob("*.log"))
                with last.open("ab") as stream:  # a write that was torn
                    stream.write(b"\xff\xff\xff" + value)
                log = MessageLog(place, LoggedMessage, segment=60)
            assert (log.end, log.state.committed) == (len(wanted), committed)
            assert log.begin <= max(0, min(committed, log.end - 4))
            for start in {log.begin, committed, max(log.begin, log.end - 2)}:
                assert payloads(log, start, log.end) == wanted[start:]
            assert [each.payload for each in log.last(4)] == wanted[-4:]
        log.close()


def test_committed_messages_are_removed_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_log, "KEPT", 2)
    log = MessageLog(str(tmp_path), LoggedMessage, segment=100)
    for number in range(50):
        log.append([message(bytes([number]) * 20)])
    before = log.bytes_from(0)
    log.commit(40)
    assert 30 < log.begin <= 40
    assert log.bytes_from(0) < before / 2
    assert sum(path.stat().st_size for path in tmp_path.glob("*.log")) == log.bytes_from(0)
    assert payloads(log, 40, 50) == [bytes([number]) * 20 for number in range(40, 50)]
    log.close()


def test_a_log_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_log, "PATIENCE", 0.0)
    log = MessageLog(str(tmp_path), LoggedMessage)
    with pytest.raises(DistributaryError, match="another query writes the log"):
        MessageLog(str(tmp_path), LoggedMessage)
    log.close()
    MessageLog(str(tmp_path), LoggedMessage).close()


def test_the_log_of_another_client_is_refused(tmp_path: Path) -> None:
    MessageLog(str(tmp_path), LoggedMessage, "ann").close()
    with pytest.raises(DistributaryError, match="belongs to the client ann, not to bob"):
        MessageLog(str(tmp_path), LoggedMessage, "bob")


def test_damage_in_the_middle_is_told_and_not_passed_over(tmp_path: Path) -> None:
    log = MessageLog(str(tmp_path), LoggedMessage, segment=40)
    for number in range(9):
        log.append([message(bytes([number]) * 20)])
    log.close()
    paths = sorted(tmp_path.glob("*.log"))
    data = bytearray(paths[0].read_bytes())
    data[12] ^= 1
    paths[0].write_bytes(data)
    with pytest.raises(DamagedError, match="is damaged behind offset 0"):
        MessageLog(str(tmp_path), LoggedMessage, segment=40)
    data[12] ^= 1
    paths[0].write_bytes(data)
    paths[1].unlink()
    with pytest.raises(DamagedError, match="has nothing from"):
        MessageLog(str(tmp_path), LoggedMessage, segment=40)


def test_offsets_that_the_log_has_not_are_refused(tmp_path: Path) -> None:
    log = MessageLog(str(tmp_path), LoggedMessage)
    log.append([message(b"x")])
    with pytest.raises(DamagedError, match="has offsets 0 to 1, the checkpoint asks for 0 to 2"):
        log.ranges(0, 2, 10)
    log.close()


def test_zeros_that_a_crash_of_the_machine_left_are_no_messages(tmp_path: Path) -> None:
    log = MessageLog(str(tmp_path), LoggedMessage)
    log.append([message(b"x")])
    log.close()
    with next(tmp_path.glob("*.log")).open("ab") as stream:
        stream.write(bytes(64))
    log = MessageLog(str(tmp_path), LoggedMessage)
    assert payloads(log, 0, log.end) == [b"x"]
    log.append([message(b"y")])
    log.close()
    log = MessageLog(str(tmp_path), LoggedMessage)
    assert payloads(log, 0, log.end) == [b"x", b"y"]
    log.close()


def test_a_log_that_ends_before_what_it_had_is_damaged(tmp_path: Path) -> None:
    log = MessageLog(str(tmp_path), LoggedMessage)
    log.append([message(b"x"), message(b"y")])
    log.commit(1)
    log.close()
    path = next(tmp_path.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError, match="has offsets 0 to 1, and had 1 to 2"):
        MessageLog(str(tmp_path), LoggedMessage)
