"""Which brokers a command connects to, and how: the options, and the client that they mean."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.cli.terminal import add_options
from distributary.errors import UsageError

if TYPE_CHECKING:
    from distributary.client import Client


def add_broker(command: argparse.ArgumentParser, option: str) -> None:
    """Add the options that say which brokers a client connects to."""
    command.add_argument(
        option,
        required=True,
        action="extend",
        type=lambda text: text.split(","),
        dest="brokers",
        metavar="HOST:PORT",
        help="where brokers listen, with commas between; the next is tried when one does not answer",
    )
    add_options(
        command,
        ("--network NAME", "distributary", "the name of the network (distributary)"),
        ("--certificate FILE", Path, "for TLS, which brokers of other machines require; with --key"),
        ("--key FILE", Path, "the key of the certificate"),
        ("--authority FILE", Path, "who signed the certificates of the network's nodes, and this one"),
    )


def client_of(parsed: argparse.Namespace, **who: Any) -> Client:
    """A client of the brokers that were named; UsageError when part of what TLS takes is missing."""
    from distributary.client.endpoints import connect_node
    from distributary.live.security import TlsFiles

    files = {name: getattr(parsed, name) for name in TlsFiles._fields}
    given = {name: file for name, file in files.items() if file is not None}
    if given and len(given) < len(files):
        raise UsageError("--certificate, --key and --authority go together")
    tls = TlsFiles(**given) if given else None
    return connect_node(*parsed.brokers, network=parsed.network, tls=tls, **who)
