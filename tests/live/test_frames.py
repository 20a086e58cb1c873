"""Frames in a stream of bytes, however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from distributary.live.codec import CodecError
from distributary.live.frames import FrameReader, frame


@given(some.lists(some.binary(max_size=300), max_size=8), some.lists(some.integers(1, 40), min_size=1))
def test_frames_come_out_as_they_went_in(messages: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, messages))
    reader, found, place, turn = FrameReader(), [], 0, 0
    while place < len(stream):
        length = cuts[turn % len(cuts)]
        found += reader.read(stream[place : place + length])
        place, turn = place + length, turn + 1
    assert found == messages


def test_a_frame_longer_than_allowed_is_refused_before_it_has_come() -> None:
    reader = FrameReader(most=100)
    assert list(reader.read(frame(b"a" * 100))) == [b"a" * 100]
    with pytest.raises(CodecError, match="101 bytes"):
        list(reader.read((101).to_bytes(4, "big")))


def test_a_long_frame_in_many_pieces_is_put_together_once() -> None:
    reader, message = FrameReader(), bytes(8 << 20)
    stream = frame(message)
    for place in range(0, len(stream) - 1, 1024):
        assert list(reader.read(stream[place : place + 1024])) in ([], [message])
    assert len(reader._pieces) == 0, "all is read"
