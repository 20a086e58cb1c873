"""Handles SUBSCRIBE and UNSUBSCRIBE of a connection.

A subscription's id is its filter as the client wrote it, so a filter that is subscribed to again takes the
place of the one before, and UNSUBSCRIBE names it. SUBACK is sent when all filters of the packet are in force
and kept, or refused. Then retained messages are put into the mailbox, as the filter's options say (`latest`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from distributary.edge.access import AccessError, Identity
from distributary.edge.mqtt.codec import write_told
from distributary.edge.mqtt.filters import (
    FilterOptions,
    FilterWords,
    asked_words,
    read_filter,
    subscription_of,
)
from distributary.edge.mqtt.latest import give_latest
from distributary.edge.mqtt.memory import SessionMemory
from distributary.edge.mqtt.packets import (
    CodesPacket,
    ConnectPacket,
    FilterRequest,
    PacketKind,
    ReasonCode,
    SubscribePacket,
    UnsubscribePacket,
    protocol_error,
)
from distributary.edge.mqtt.room import MqttRoom
from distributary.edge.sessions import Session
from distributary.errors import InputError
from distributary.model import Subscription


class _Answers:
    """The codes of one packet, sent when all are there."""

    def __init__(
        self, kind: PacketKind, packet_id: int, count: int, say: Callable[[CodesPacket, str | None], None]
    ) -> None:
        self._kind, self._packet_id, self._say = kind, packet_id, say
        self._codes: list[int | None] = [None] * count
        self._left = count
        self._reasons: list[str] = []

    def settle(self, place: int, code: int, reason: str | None = None) -> None:
        """One is there; a reason is told in version 5."""
        self._codes[place] = code
        self._left -= 1
        if reason is not None:
            self._reasons.append(reason)
        if not self._left:
            codes = tuple(code for code in self._codes if code is not None)
            told = "; ".join(self._reasons) if self._reasons else None
            self._say(CodesPacket(self._kind, self._packet_id, codes), told)


class Subscribing:
    """The subscriptions of one connection's session."""

    def __init__(
        self,
        room: MqttRoom,
        session: Session,
        memory: SessionMemory,
        identity: Identity,
        asked: ConnectPacket,
        say: Callable[[bytes], None],
    ) -> None:
        self._room, self._session, self._memory, self._identity = room, session, memory, identity
        self._asked, self._say = asked, say

    def _answer(self, packet: CodesPacket, reason: str | None) -> None:
        asked = self._asked.properties
        told = reason if asked.get("request_problem_information", 1) else None
        self._say(write_told(packet, self._asked.version, told, asked.get("maximum_packet_size")))

    def subscribe(self, packet: SubscribePacket) -> None:
        """SUBSCRIBE has come; MqttError when it is against the protocol."""
        properties = packet.properties
        identifier = properties.get("subscription_identifier")
        shared = [each for each in packet.filters if each.text.startswith("$share/")]
        if any(each.no_local for each in shared):
            raise protocol_error("a shared subscription cannot leave out its own messages")
        answers = _Answers(PacketKind.SUBACK, packet.packet_id, len(packet.filters), self._answer)
        for place, request in enumerate(packet.filters):
            try:
                more = asked_words(properties.get("user_property", ()))
                said = read_filter(request.text)
                asked = subscription_of(request.text, self._session.subscriber, said, more)
                options = FilterOptions.of(request, identifier)
                self._subscribe_one(place, request, said, asked, options, answers)
            except AccessError as error:
                answers.settle(place, ReasonCode.NOT_AUTHORIZED, str(error))
            except InputError as error:
                answers.settle(place, ReasonCode.TOPIC_FILTER_INVALID, str(error))

    def _subscribe_one(
        self,
        place: int,
        request: FilterRequest,
        said: FilterWords,
        asked: Subscription,
        options: FilterOptions,
        answers: _Answers,
    ) -> None:
        access, identity, text = self._room.access, self._identity, request.text
        access.parts(identity, asked)  # Says why nothing is left of it; the session narrows it itself.
        before = self._memory.options.get(text)
        if before is None:
            access.subscribe(identity, len(self._memory.options) + 1)
        self._memory.set_options(text, options)
        self._room.direct.forget()

        def done(reason: str | None) -> None:
            if reason is None:
                answers.settle(place, options.qos, self._room.limit_of_groups if said.group else None)
                wanted = request.retain_handling == 0 or (request.retain_handling == 1 and before is None)
                if wanted and said.group is None:
                    give_latest(self._room, self._session, asked)
            else:
                self._memory.set_options(text, before)
                answers.settle(place, ReasonCode.IMPLEMENTATION_SPECIFIC, reason)

        if said.group is None:
            self._session.subscribe(asked, done)
        else:
            self._room.join_group(self._session, identity, said.group, asked, done)

    def unsubscribe(self, packet: UnsubscribePacket) -> None:
        """UNSUBSCRIBE has come."""
        answers = _Answers(PacketKind.UNSUBACK, packet.packet_id, len(packet.filters), self._answer)
        for place, text in enumerate(packet.filters):
            known = text in self._memory.options
            self._memory.set_options(text, None)
            if text in self._session.subscriptions:
                self._session.unsubscribe(text, partial(_ended, answers, place))
            elif known:
                self._room.leave_group(self._session, text)
                self._session.keep_marks(partial(answers.settle, place, 0))
            else:
                answers.settle(place, ReasonCode.NO_SUBSCRIPTION_EXISTED)


def _ended(answers: _Answers, place: int, reason: str | None) -> None:
    answers.settle(place, 0)
