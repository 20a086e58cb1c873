"""What the generator of the network's benchmark reads and checks, without any broker."""

from __future__ import annotations

import socket

import pytest

from bench.network import conditions, known, unknown
from bench.network.load import Load, LostError, Receiver, arrivals, median_and_worst
from bench.network.plain import Case
from bench.network.protocols import (
    AnswerCount,
    Mqtt,
    MqttListener,
    Nats,
    Ours,
    PacketCount,
    Silent,
    last_mark,
    marks,
    payload,
    remaining_length,
)
from distributary import Matcher
from distributary.live import client_messages as messages
from distributary.live.codec import decode, encode
from distributary.live.frames import FrameReader, frame
from distributary.overlay.node import Message


def in_pieces(data: bytes, length: int) -> list[bytes]:
    return [data[place : place + length] for place in range(0, len(data), length)]


@pytest.mark.parametrize("speaker", [Mqtt(), Nats(), Ours(), Ours(together=1)])
@pytest.mark.parametrize("acknowledged", [False, True])
def test_messages_are_found_in_the_bytes_of_every_protocol(
    speaker: Mqtt | Nats | Ours, acknowledged: bool
) -> None:
    data = speaker.written(5, 7, 40, acknowledged)
    assert marks(data) == list(range(5, 12))
    assert last_mark(data) == 11
    assert data.count(b"x" * 26) == 7  # each payload has its size


@pytest.mark.parametrize("length", [1, 3, 13, 14, 15, 40, 1000])
def test_marks_that_are_cut_are_found_once(length: int) -> None:
    data = b"<<#" + b"<#".join(payload(number, 20) for number in range(20)) + b"<"
    found = list(arrivals([(float(n), piece) for n, piece in enumerate(in_pieces(data, length))]))
    assert [number for number, _ in found] == list(range(20))
    assert [when for _, when in found] == sorted(when for _, when in found)


def receiver(*pieces: bytes) -> Receiver:
    made = Receiver(socket.socket(), Silent())
    made.connection.close()
    for piece in pieces:
        made.take(piece)
    return made


def test_what_is_lost_doubled_or_out_of_order_is_no_answer() -> None:
    good = [payload(number, 20) for number in range(4)]
    assert [number for number, _ in receiver(*good).check(range(4))] == [0, 1, 2, 3]
    for wrong in (good[:3], [*good, good[3]], [good[0], good[2], good[1], good[3]], good[1:]):
        with pytest.raises(LostError, match="are owed"):
            receiver(*wrong).check(range(4))


@pytest.mark.parametrize("length", [1, 5, 64, 1000])
def test_every_message_of_mqtt_is_acknowledged_by_its_packet(length: int) -> None:
    data = Mqtt().written(65_530, 10, 200, acknowledged=True)
    listener = MqttListener(len(data) // 10)
    answered = b"".join(map(listener.replies, in_pieces(data, length)))
    packets = [int.from_bytes(answered[place + 2 : place + 4], "big") for place in range(0, 40, 4)]
    assert packets == [65_531, 65_532, 65_533, 65_534, 65_535, 1, 2, 3, 4, 5]
    counting = PacketCount(4)
    assert sum(map(counting.count, in_pieces(answered, length))) == 10


def test_the_length_of_a_packet_is_written_as_mqtt_has_it() -> None:
    assert [remaining_length(n).hex() for n in (0, 127, 128, 16_383, 16_384)] == [
        "00",
        "7f",
        "8001",
        "ff7f",
        "808001",
    ]


def test_requests_are_numbered_by_the_events_that_their_answers_count() -> None:
    data = Ours(together=3).written(10, 7, 20, acknowledged=True)
    asked = [decode(each) for each in FrameReader().read(data)]
    assert [(each.number, len(each.events)) for each in asked] == [(13, 3), (16, 3), (17, 1)]

    counting = AnswerCount()
    said: list[Message] = [messages.ClientAnswer(3), messages.ClientAnswer(10)]
    assert [counting.count(frame(encode(each))) for each in said] == [3, 7]
    with pytest.raises(ConnectionError, match="refused"):
        counting.count(frame(encode(messages.ClientAnswer(11, ((0, "no"),)))))


def test_a_load_waits_for_what_is_under_way_and_for_acknowledgements() -> None:
    (ours, theirs), (taken, given) = socket.socketpair(), socket.socketpair()
    load = Load(ours, PacketCount(4), [Receiver(taken, Silent())], acknowledged=True)
    for number in range(5):
        given.sendall(payload(number, 20))
        theirs.sendall(b"\x40\x02\x00\x00")
    last, _ = load.flood([(number, payload(number, 20)) for number in range(5)], window=2, seconds=60)
    assert last == 4
    assert marks(theirs.recv(1000)) == [0, 1, 2, 3, 4]
    load.receivers[0].check(range(5))
    given.close()
    with pytest.raises(LostError, match="closed"):
        load.one_by_one(5, [payload(5, 20)])
    load.close()
    theirs.close()


def test_percentiles_and_names() -> None:
    assert median_and_worst([float(n) for n in range(1, 102)]) == (51.0, 100.0)
    assert (
        Case(3, 100, 10_000, acknowledged=True).name == "3-brokers-100-subscribers-10000-bytes-acknowledged"
    )
    assert unknown(False, ["conditions", "3-brokers", "mosquitto", "nosuch"]) == ["nosuch"]
    assert len(known(False)) == len(set(known(False)))


def test_conditions_want_some_events_and_not_most() -> None:
    asked, published = conditions.conditional(20_000), list(conditions.events(0, 50))
    matcher = Matcher(asked)
    found = [len(matcher.match(event)) for event in published]
    assert 10 < sum(found) < 200
