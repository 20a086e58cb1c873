"""Batches of deliveries in bytes: as the codec writes them, and once for all who are given the same."""

from __future__ import annotations

from random import Random

import pytest

from distributary.live import client_messages as messages
from distributary.live.codec import decode, encode
from distributary.live.deliveries import DeliveryFrames
from distributary.live.frames import FrameReader, frame
from distributary.model import Delivery, DeliveryBatch, Event, Offset
from distributary.overlay.tree import event_log
from distributary.overlay.wire import size_of
from properties.examples import examples


def read(data: bytes) -> list[Delivery]:
    """What a client is told by these bytes."""
    found: list[Delivery] = []
    for each in FrameReader().read(data):
        message = decode(each)
        assert isinstance(message, messages.ClientDeliveries)
        found += DeliveryBatch("ann", *message).deliveries
    return found


def random_batch(random: Random) -> DeliveryBatch:
    count = random.randint(1, 12)
    events = tuple(Event(f"e{n}", random.choice([None, "A/B"]), {"a": n}) for n in range(count))
    numbers = tuple(sorted(random.sample(range(1, 2**34), count)))
    names: tuple[tuple[str, ...], ...] = (("s1", "s2"),)
    if random.random() < 0.5:
        names = tuple(random.choice([("s1",), ("s2",), ("s1", "s2")]) for _ in events)
    return DeliveryBatch("ann", random.random(), numbers, events, names)


@pytest.mark.parametrize("most", [1 << 20, 60])
@pytest.mark.parametrize("seed", range(examples(30)))
def test_a_batch_says_what_its_deliveries_say_however_it_is_cut(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "MOST_TOGETHER", most)
    random, frames = Random(f"deliveries {seed}"), DeliveryFrames()
    for _ in range(5):
        batch = random_batch(random)
        written = b"".join(frames.pieces(batch))
        assert read(written) == batch.deliveries
        if most > 60:
            message = messages.ClientDeliveries(*batch[1:])
            assert written == frame(encode(message))
            assert len(written) == 4 + size_of(message)


def test_who_is_given_the_same_events_is_sent_the_same_bytes() -> None:
    frames = DeliveryFrames()
    batch = random_batch(Random(1))
    first, second = frames.pieces(batch), frames.pieces(batch._replace(subscriber="bob", names=(("s3",),)))
    assert first[1] is second[1]
    assert read(b"".join(second)) == [
        Delivery(event, "ann", ("s3",), Offset(batch.epoch, number))
        for event, number in zip(batch.events, batch.numbers, strict=True)
    ]
