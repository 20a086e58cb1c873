"""Deliveries in frames: what many clients are given alike is written once.

A batch of deliveries is a `ClientDeliveries`, whose last field has what differs by client, the names of its
subscriptions. All before it is the same bytes for all who are given the same events. A batch of more bytes
than a message should have is as many messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.msgpack import Encoder

from distributary.live.client_messages import ClientDeliveries
from distributary.live.codec import array_header, encode
from distributary.live.frames import HEADER
from distributary.model import DeliveryBatch, Event
from distributary.overlay.kinds import number_of
from distributary.overlay.packed_events import PackedEvents
from distributary.overlay.tree.event_log import divided

_encoder = Encoder()
_KIND = number_of(ClientDeliveries)
_BEGINNING = array_header(1 + len(ClientDeliveries._fields))
"""How the array begins that a `ClientDeliveries` is."""


class _SharedPart(NamedTuple):
    """A part of a batch: which of its events, and the bytes of all fields but the last."""

    part: slice
    written: tuple[bytes | memoryview, ...]
    size: int


class DeliveryFrames:
    """Writes batches of deliveries.

    >>> from distributary.live.codec import decode
    >>> batch = DeliveryBatch("ann", 2.0, (7, 8), (Event("e1"), Event("e2")), (("s1",),))
    >>> decode(b"".join(DeliveryFrames().pieces(batch))[HEADER:]).names
    (('s1',),)
    """

    def __init__(self) -> None:
        self._events: Sequence[Event] = ()
        self._shared: list[_SharedPart] = []

    def pieces(self, batch: DeliveryBatch) -> list[bytes | memoryview]:
        """The frames of a batch, in pieces to be sent one after the other."""
        if batch.events is not self._events:
            self._events, self._shared = batch.events, _shared_parts(batch)
        pieces: list[bytes | memoryview] = []
        for part, written, size in self._shared:
            names = batch.names if len(batch.names) == 1 else batch.names[part]
            last = _encoder.encode(names)
            pieces += ((size + len(last)).to_bytes(HEADER, "big"), *written, last)
        return pieces


def _shared_parts(batch: DeliveryBatch) -> list[_SharedPart]:
    parts = []
    for start, events in divided(batch.events):
        part = slice(start, start + len(events))
        pieces: tuple[bytes | memoryview, ...]
        if type(events) is PackedEvents:
            begin = _encoder.encode((_KIND, batch.epoch, batch.numbers[part]))[1:]
            pieces = (_BEGINNING + begin + array_header(len(events)), *events.buffers)
        else:  # without the last field, an array of none
            pieces = (encode(ClientDeliveries(batch.epoch, batch.numbers[part], tuple(events), ()))[:-1],)
        parts.append(_SharedPart(part, pieces, sum(map(len, pieces))))
    return parts
