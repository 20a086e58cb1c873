"""How a client of an MQTT broker is made from the options of the format, for reading and for writing.

The library is paho-mqtt, which is loaded when it is needed: `pip install 'distributary[mqtt]'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from distributary.errors import DistributaryError, SettingError
from distributary.spark.connectors.options import Option, Value

if TYPE_CHECKING:
    from paho.mqtt.client import Client

FORMAT = "mqtt"
FIVE, OLDER = "5", "3.1.1"
IN_FLIGHT = 1000
"""Messages that may be under way without an acknowledgement, either way."""
FIRST_PAUSE, LONGEST_PAUSE = 1, 30
"""Seconds between attempts to connect again."""
CONNECTION = (
    Option("host", default="localhost"),
    Option("port", "whole"),
    Option("version", default=FIVE, choices=(FIVE, OLDER)),
    Option("username"),
    Option("password"),
    Option("tls", "truth", False),
    Option("authority"),
    Option("certificate"),
    Option("key"),
)
"""The options that say how to reach a broker."""
PERMANENT = (
    "unsupported protocol version",
    "client identifier not valid",
    "bad user name or password",
    "not authorized",
    "banned",
    "bad authentication method",
)
"""Why a broker refuses a client that it will refuse again, as paho-mqtt says it."""
TLS_FILES = {"ca_certs": "authority", "certfile": "certificate", "keyfile": "key"}
"""What paho-mqtt calls the files of TLS, and our options."""


def address(options: Mapping[str, Value]) -> tuple[str, int]:
    """Host and port of the broker."""
    return str(options["host"]), int(options["port"] or (8883 if options["tls"] else 1883))


def check_connection(options: Mapping[str, Value]) -> None:
    """`SettingError` for options that do not go together."""
    for name in ("authority", "certificate", "key"):
        if options[name] is not None and not options["tls"]:
            raise SettingError(f'the option "{name}" is for TLS: add .option("tls", "true")')
    if options["key"] is not None and options["certificate"] is None:
        raise SettingError('the option "key" needs the option "certificate" beside it')
    if options["password"] is not None and options["username"] is None:
        raise SettingError('the option "password" needs the option "username" beside it')


def new_client(options: Mapping[str, Value], name: str, *, lasting: bool) -> Client:
    """A client that is not connected yet; one that is lasting acknowledges messages when it is told to."""
    paho = paho_client()
    five = options["version"] == FIVE
    client: Client = paho.Client(
        paho.CallbackAPIVersion.VERSION2,
        client_id=name,
        clean_session=None if five else not lasting,
        protocol=paho.MQTTv5 if five else paho.MQTTv311,
        manual_ack=lasting,
    )
    if options["username"] is not None:
        password = options["password"]
        client.username_pw_set(str(options["username"]), None if password is None else str(password))
    if options["tls"]:
        files = {name: options[each] for name, each in TLS_FILES.items()}
        try:
            client.tls_set(**files)  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            raise DistributaryError(f"cannot use the files for TLS of {FORMAT}: {error}") from None
    client.reconnect_delay_set(FIRST_PAUSE, LONGEST_PAUSE)
    client.max_inflight_messages_set(IN_FLIGHT)
    return client


def connect(client: Client, options: Mapping[str, Value], expiry: int | None = None) -> None:
    """Connect for the first time; with an expiry the session lasts, for so many seconds in MQTT 5."""
    host, port = address(options)
    named: dict[str, Any] = {}
    if options["version"] == FIVE:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = IN_FLIGHT
        if expiry is not None:
            properties.SessionExpiryInterval = expiry
        named = {"clean_start": expiry is None, "properties": properties}
    try:
        client.connect(host, port, **named)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DistributaryError(
            f'no MQTT broker answers at {host}:{port}: {reason}: start it, or set "host" and "port"'
        ) from None


def paho_client() -> Any:
    """The module `paho.mqtt.client`."""
    try:
        import paho.mqtt.client as paho
    except ImportError:
        reason = "the format mqtt needs the package paho-mqtt: pip install 'distributary[mqtt]'"
        raise DistributaryError(reason) from None
    return paho
