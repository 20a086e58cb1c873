"""Takes messages from an MQTT broker into a log on the disk, and acknowledges them when they are there.

Three threads: that of paho-mqtt, which puts what comes into a list; a writer, which appends all that is in
the list at once and then acknowledges it; and whoever asks how far the log has come.

Rules:

- A message of QoS 1 is acknowledged after `MessageLog.append` has returned, on the connection it came by. An
  acknowledgement of an earlier connection is never sent: the broker may have given its packet identifier to
  another message since, if it has lost the session.
- A broker sends again, with its packet identifier and the flag DUP, what was not acknowledged when a
  connection ended. Such a message is left out, and acknowledged, if it is the same as the last one with that
  identifier among the last `KEPT` of the log. Where the broker says that it has a new session, nothing
  before it is the same. A broker that gives an identifier to another message at once, and not in turn, can
  be misunderstood: see `Repetitions`.
- The session lasts at the broker. It is subscribed to once, not with each connection, because each
  SUBSCRIBE may bring all retained messages again.
- When the log is full, the broker keeps what comes meanwhile. Messages of QoS 0, which nobody keeps, are
  counted and dropped.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from time import time_ns
from typing import TYPE_CHECKING, Any

import msgspec

from distributary.errors import DistributaryError
from distributary.spark.connectors.intake import LogIntake
from distributary.spark.connectors.message_log import KEPT, MessageLog
from distributary.spark.connectors.mqtt.client import FIVE, PERMANENT, address, connect, new_client
from distributary.spark.connectors.mqtt.message import LoggedMessage, read_properties
from distributary.spark.connectors.options import Value

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

PATIENCE = 30.0
"""Seconds in which a broker must have answered CONNECT and SUBSCRIBE, the first time."""
MOST_WAITING = 10_000
"""Messages in memory, above which those of QoS 0 are dropped."""
TAKEN_OVER = 0x8E
"""The reason code of MQTT 5 by which a connection ends because another one has its name."""
_log = logging.getLogger("distributary")


class Repetitions:
    """The last messages of the log by their packet identifiers, to tell which come again.

    A message with the flag DUP is one of these, or one that was sent for the first time on a connection that
    broke before it arrived. They differ by their identifier, since brokers give identifiers in turn
    (mosquitto and ours do), or by what is in them. With a broker that gives the same identifier to the next
    message, an equal message that is under way when a connection breaks is taken for the one before.
    """

    def __init__(self, logged: Iterable[LoggedMessage] = ()) -> None:
        self._digests: OrderedDict[int, bytes] = OrderedDict()
        for message in logged:
            self.add(message)

    def add(self, message: LoggedMessage) -> None:
        """A message is in the log."""
        if message.packet:
            self._digests.pop(message.packet, None)
            self._digests[message.packet] = _digest(message)
            if len(self._digests) > KEPT:
                self._digests.popitem(last=False)

    def has(self, message: LoggedMessage) -> bool:
        """Whether a message that came with the flag DUP is in the log."""
        return self._digests.get(message.packet) == _digest(message)

    def clear(self) -> None:
        """The broker has a new session: packet identifiers mean other messages from now on."""
        self._digests.clear()


def _digest(message: LoggedMessage) -> bytes:
    # The broker counts the expiry down between one attempt and the next.
    properties = {k: v for k, v in (message.properties or {}).items() if k != "expiry"}
    parts = (message.topic, message.payload, message.qos, message.retained, sorted(properties.items()))
    return blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest()


class _Arrived:
    """A message that waits to be written; without one, the word that the broker has a new session."""

    def __init__(self, connection: int, message: LoggedMessage | None = None, again: bool = False) -> None:
        self.connection, self.message, self.again = connection, message, again


class MqttIntake(LogIntake):
    """The way of messages from a broker into a log; it ends with its process."""

    def __init__(
        self, options: Mapping[str, Value], filters: Sequence[str], log: MessageLog[LoggedMessage]
    ) -> None:
        super().__init__(log, int(options["maxLogBytes"] or 0), bool(options["failOnLoss"]))
        self._options, self._filters = options, list(filters)
        self._waiting: list[_Arrived] = []
        self._connection = 0
        self._connected = self._subscribed = False
        self._asked: dict[int, list[str]] = {}
        self._dropped = 0
        self._repetitions = Repetitions(log.last(KEPT))
        self._writer = threading.Thread(target=self._write, name="mqtt log", daemon=True)
        self._client = new_client(options, log.state.client, lasting=True)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def start(self) -> None:
        """Connect and subscribe; returns when the broker has accepted both."""
        connect(self._client, self._options, int(self._options["sessionExpiry"] or 0))
        self._client.loop_start()
        self._writer.start()
        with self.changed:
            answered = self.changed.wait_for(lambda: self._subscribed or self.failure, PATIENCE)
        self.require_sound()
        if not answered:
            raise DistributaryError(f"{self._broker} has not answered in {PATIENCE:.0f} s")

    def close(self) -> None:
        """End the connection, not the session; what was not acknowledged is sent again another time."""
        self.fail("the intake was closed")
        if self._writer.is_alive():
            self._writer.join()
        self._client.disconnect()
        self._client.loop_stop()
        self.log.close()

    @property
    def waits(self) -> bool:
        """Whether something has come that is not in the log yet."""
        return bool(self._waiting)

    @property
    def _broker(self) -> str:
        return "the MQTT broker at {}:{}".format(*address(self._options))

    # What paho calls, in its thread, which an exception would end.

    def _on_connect(self, client: Client, _: Any, flags: Any, reason: Any, __: Any) -> None:
        if reason.is_failure:
            self._refused(str(reason))
            return
        state = self.log.state
        with self.changed:
            self._connection += 1
            self._connected = True
            if not flags.session_present:
                if self.log.end > 0 or state.subscribed:
                    self.lost(
                        f"{self._broker} had no session of {state.client}: messages may have been missed"
                    )
                state.subscribed = []
                self._waiting.append(_Arrived(self._connection))
            self.changed.notify_all()
        try:
            self._subscribe(client, state.subscribed)
        except ValueError as error:  # paho-mqtt refuses some filters by itself
            self.fail(f'"topic" is {self._filters}: {error}')

    def _refused(self, reason: str) -> None:
        """The broker does not let the client in: for good, or not now."""
        told = f"{self._broker} refuses the client {self.log.state.client}: {reason}"
        if not self._subscribed or reason.lower() in PERMANENT:
            self.fail(told)
        else:
            _log.warning("%s; it is tried again", told)

    def _subscribe(self, client: Client, subscribed: Sequence[str]) -> None:
        """Have what is wanted subscribed to, and nothing else."""
        gone = [each for each in subscribed if each not in self._filters]
        if gone:
            client.unsubscribe(gone)
        missing = [each for each in self._filters if each not in subscribed]
        if missing:
            _, number = client.subscribe([(each, self._subscription_options()) for each in missing])
            self._asked[int(number or 0)] = missing
        else:
            self._now_subscribed()

    def _subscription_options(self) -> Any:
        if self._options["version"] != FIVE:
            return 1
        from paho.mqtt.subscribeoptions import SubscribeOptions

        # Retained messages come when a filter is new, and not again if a crash kept us from noting that.
        return SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)

    def _on_subscribe(self, _: Client, __: Any, number: int, reasons: Sequence[Any], ___: Any) -> None:
        for name, reason in zip(self._asked.pop(number, ()), reasons, strict=False):
            if reason.is_failure:
                self.fail(
                    f'{self._broker} refuses the topic filter "{name}": {reason}: set "topic" to another'
                )
                return
        self._now_subscribed()

    def _now_subscribed(self) -> None:
        try:
            with self.changed:
                if self.log.state.subscribed != self._filters:
                    self.log.state.subscribed = list(self._filters)
                    self.log.write_state()
                self._subscribed = True
                self.arrived()
                self.changed.notify_all()
        except DistributaryError as error:
            self.fail(str(error))

    def _on_disconnect(self, _: Client, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        with self.changed:
            self._connected = False
        if getattr(reason, "value", 0) == TAKEN_OVER:
            self.fail(
                f"another client has connected to {self._broker} as {self.log.state.client}: give each query "
                'a log and, if you name it, a "clientId" of its own'
            )

    def _on_message(self, _: Client, __: Any, came: MQTTMessage) -> None:
        try:
            self._take(came)
        except Exception as error:  # whatever it is, whoever asks for offsets must be told
            self.fail(f"a message of {self._broker} could not be taken: {type(error).__name__}: {error}")

    def _take(self, came: MQTTMessage) -> None:
        message = LoggedMessage(
            came.topic,
            bytes(came.payload),
            came.qos,
            bool(came.retain),
            time_ns() // 1000,
            came.mid if came.qos else 0,
            read_properties(came.properties) if self._options["version"] == FIVE else None,
        )
        with self.changed:
            self.arrived()
            if came.qos == 0 and len(self._waiting) >= MOST_WAITING:
                self._dropped += 1
                if self._dropped in (1, 1000) or self._dropped % 1_000_000 == 0:
                    _log.warning("the MQTT log is full: %d messages of QoS 0 were dropped", self._dropped)
                return
            self._waiting.append(_Arrived(self._connection, message, bool(came.dup)))
            self.changed.notify_all()

    # The writer.

    def _write(self) -> None:
        try:
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: self.failure or (self._waiting and self.has_room()))
                    if self.failure is not None:
                        return
                    arrived = list(self._waiting)
                self._keep(arrived)
                with self.changed:
                    del self._waiting[: len(arrived)]
                    self.changed.notify_all()
        except Exception as error:  # whatever it is, whoever asks for offsets must be told
            self.fail(str(error))

    def _keep(self, arrived: Sequence[_Arrived]) -> None:
        """Write messages, and acknowledge them."""
        fresh: list[LoggedMessage] = []
        for each in arrived:
            if each.message is None:
                self._repetitions.clear()
            elif not (each.again and self._repetitions.has(each.message)):
                fresh.append(each.message)
                self._repetitions.add(each.message)
        if fresh:
            with self.changed:
                self.log.append(fresh)
        for each in arrived:
            # The lock is held by whoever tells of another connection, so none begins in between.
            with self.changed:
                current = self._connected and each.connection == self._connection
                if current and each.message is not None and each.message.qos:
                    self._client.ack(each.message.packet, each.message.qos)
