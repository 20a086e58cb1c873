"""How a broker is reached from the options of the format `distributary`, for reading and for writing."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributary.client import Client, TlsFiles, WebClient, connect
from distributary.client.endpoints import is_web_address
from distributary.errors import DistributaryError, SettingError
from distributary.spark.connectors.options import Option, Value

FORMAT = "distributary"
CONNECTION = (
    Option("at", needed="ws://localhost:8080"),
    Option("network", default="distributary"),
    Option("token"),
    Option("user"),
    Option("password"),
    Option("authority"),
    Option("certificate"),
    Option("key"),
)
"""The options that say how to reach a broker."""
OF_WEB, OF_NODES = ("token", "user", "password"), ("certificate", "key")


def endpoints(options: Mapping[str, Value]) -> list[str]:
    """The endpoints of brokers, which stand with commas between them."""
    return [each.strip() for each in str(options["at"]).split(",") if each.strip()]


def is_web(options: Mapping[str, Value]) -> bool:
    """Whether the brokers are reached by their web servers, and not as nodes of a network."""
    return is_web_address(endpoints(options)[0])


def check_connection(options: Mapping[str, Value]) -> None:
    """`SettingError` for options that do not go together."""
    places = endpoints(options)
    if not places or len({is_web_address(each) for each in places}) > 1:
        raise SettingError(
            f'the option "at" is "{options["at"]}"; it must be endpoints of one kind, with commas between '
            "them: either ws://HOST:PORT or HOST:PORT"
        )
    strangers, kind = (OF_NODES, "HOST:PORT") if is_web(options) else (OF_WEB, "ws://HOST:PORT")
    for name in strangers:
        if options[name] is not None:
            raise SettingError(f'the option "{name}" is for endpoints such as {kind}')
    if not is_web(options) and len({options[name] is None for name in ("authority", *OF_NODES)}) > 1:
        raise SettingError('a node needs "certificate", "key" and "authority" together')


def client_of(options: Mapping[str, Value], name: str | None, **more: Any) -> Client | WebClient:
    """A client that is not connected yet; `more` is for `connect`."""
    named = {"name": name, **more}
    if not is_web(options):
        if options["key"] is not None:
            files = (Path(str(options[each])) for each in ("certificate", "key", "authority"))
            named["tls"] = TlsFiles(*files)
        return connect(*endpoints(options), network=str(options["network"]), **named)
    if options["authority"] is not None:
        try:
            named["context"] = ssl.create_default_context(cafile=str(options["authority"]))
        except OSError as error:
            raise DistributaryError(f"cannot use the authority {options['authority']}: {error}") from None
    return connect(*endpoints(options), **named, **{each: options[each] for each in OF_WEB})
