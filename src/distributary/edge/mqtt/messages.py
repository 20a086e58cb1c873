"""Messages of MQTT as events, and deliveries as messages.

What a message has beside its topic and payload travels in attributes of its event, which conditions may ask
for: `mqtt.qos`, `mqtt.retain`, `mqtt.expires` (seconds since 1970), and `mqtt.properties`, which are passed
on as they came. But for the QoS each is left out where it says nothing: not retained, no expiry, no
properties.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

from distributary.edge.mqtt.packets import Properties, PublishPacket, WillMessage
from distributary.edge.payloads import event_of
from distributary.model import Event, Value

QOS, RETAIN, EXPIRES, PROPERTIES = "mqtt.qos", "mqtt.retain", "mqtt.expires", "mqtt.properties"
RETAINED = "mqtt.retained"
"""Marks the copy of an event that is given to a new subscription because it was retained."""
PASSED_ON = ("payload_format_indicator", "content_type", "response_topic")
"""Properties of one value that travel as they are; so do correlation data and user properties."""


def event_of_message(
    message: PublishPacket | WillMessage, topic: str, id: str, source: str, now: float
) -> Event:
    """The event of a message; InputError for a topic that no event can have."""
    own: dict[str, Value] = {"source": source, QOS: message.qos}
    if message.retain:
        own[RETAIN] = True
    if message.properties:
        if (seconds := message.properties.get("message_expiry_interval")) is not None:
            own[EXPIRES] = now + seconds
        if passed := passed_on(message.properties):
            own[PROPERTIES] = passed
    return event_of(id, topic, message.payload, own)


def passed_on(properties: Properties) -> dict[str, Any]:
    """The properties of a message that its subscribers get, in a form that events carry."""
    passed: dict[str, Any] = {name: properties[name] for name in PASSED_ON if name in properties}
    if "correlation_data" in properties:
        passed["correlation_data"] = base64.b64encode(properties["correlation_data"]).decode()
    if "user_property" in properties:
        passed["user_property"] = properties["user_property"]
    return passed


def properties_of(event: Event, now: float) -> dict[str, Any]:
    """The properties of the message that an event is sent as; nothing where the event's are no such thing."""
    attributes = event.attributes
    properties: dict[str, Any] = {}
    given = attributes.get(PROPERTIES)
    if isinstance(given, Mapping):
        try:
            properties = _properties(given)
        except (binascii.Error, TypeError, ValueError):
            properties = {}  # Somebody else's attribute of that name.
    if (expires := expiry_of(event)) is not None:
        properties["message_expiry_interval"] = min(max(1, math.ceil(expires - now)), 0xFFFFFFFF)
    return properties


def _properties(given: Mapping[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if "payload_format_indicator" in given:
        properties["payload_format_indicator"] = int(bool(given["payload_format_indicator"]))
    for name in ("content_type", "response_topic"):
        if name in given:
            properties[name] = _text(given[name])
    if "correlation_data" in given:
        properties["correlation_data"] = base64.b64decode(given["correlation_data"], validate=True)
    if "user_property" in given:
        properties["user_property"] = tuple(
            (_text(name), _text(value)) for name, value in given["user_property"]
        )
    return properties


def _text(given: object) -> str:
    if not isinstance(given, str) or len(given.encode()) > 65_535 or "\0" in given:
        raise ValueError
    return given


def qos_of(event: Event) -> int:
    """At which QoS an event was published; 1 for one that did not come by MQTT."""
    given = event.attributes.get(QOS)
    return given if isinstance(given, int) and 0 <= given <= 2 else 1


def expiry_of(event: Event) -> float | None:
    """When an event expires, in seconds since 1970; None for never."""
    given = event.attributes.get(EXPIRES)
    return float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None
