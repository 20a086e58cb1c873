"""What two nodes tell each other before anything else, and who is refused.

Rules:

- Whoever connects speaks first. Both sides say which versions of the protocol they speak, which network they
  belong to, which node they are and where that listens. The later version that both speak is spoken.
- A stranger is told why it is refused, and the connection ends: another network, another system, other
  settings of it, no common version, the name of this node itself.
- Nobody may send more than `MAX_GREETING` bytes, or take more than `PATIENCE` seconds, before it is greeted.
"""

from __future__ import annotations

import os
from socket import gaierror
from ssl import SSLError
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.live.codec import OLDEST, VERSION
from distributary.overlay.node import Address
from distributary.systems.options import LAYOUT

MAX_GREETING = 4_096
"""The longest frame that a stranger may send."""
PATIENCE = 5.0
"""Seconds in which a greeting must have come."""


class Endpoint(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def reason_of(error: OSError) -> str:
    """Why a place cannot be listened at or connected to, without what asyncio says around it.

    >>> reason_of(OSError(98, "error while attempting to bind on address ..."))
    'Address already in use'
    """
    if error.errno is None or isinstance(error, SSLError | gaierror):  # which have numbers of their own
        return str(error)
    return os.strerror(error.errno)


def parse_endpoint(text: str) -> Endpoint:
    """Read HOST:PORT.

    >>> parse_endpoint("127.0.0.1:7000"), parse_endpoint("[::1]:7000").host
    (Endpoint(host='127.0.0.1', port=7000), '::1')
    >>> parse_endpoint("here")
    Traceback (most recent call last):
    ...
    distributary.errors.DistributaryError: an endpoint is HOST:PORT, such as 127.0.0.1:7000, not 'here'
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not colon or not (port.isascii() and port.isdecimal() and 0 <= int(port) < 65_536):
        raise DistributaryError(f"an endpoint is HOST:PORT, such as 127.0.0.1:7000, not {text!r}")
    return Endpoint(host, int(port))


class Greeting(NamedTuple):
    """The first message of either side."""

    oldest: int
    """The oldest version of the protocol that is spoken."""
    newest: int
    network: str
    address: Address
    endpoint: Endpoint | None
    """Where it listens; None if it does not."""
    system: str = ""
    """The system that it runs."""
    settings: tuple[tuple[str, str], ...] = ()
    """What all nodes of a network must have alike, by name; nothing if it does not tell."""


class GreetingRefusal(NamedTuple):
    """The greeting is refused, and why."""

    reason: str


class LinkBeat(NamedTuple):
    """Still there: sent when there was nothing else to send for a while, and to measure round trips."""

    asked: float = 0.0
    """When it was sent, by its sender's clock, if that is to be told back."""
    told_back: float = 0.0
    """What the other side asked to be told back."""


class EndpointRequest(NamedTuple):
    """Where is this node?"""

    address: Address


class EndpointReply(NamedTuple):
    """The node was last known to be there."""

    address: Address
    endpoint: Endpoint


def refusal(own: Greeting, theirs: Greeting) -> str | None:
    """Why a greeting is refused; None if it is not.

    >>> ours = Greeting(1, 1, "plant", 7, None)
    >>> refusal(ours, Greeting(2, 3, "plant", 8, None))
    'node 8 speaks versions 2 to 3 of the protocol, node 7 versions 1 to 1: update one of them'
    """
    if theirs.network != own.network:
        return f"this is network {own.network!r}, not {theirs.network!r}"
    if theirs.address == own.address:
        return f"node {own.address} is this one: give each node a name of its own"
    if theirs.system != own.system:
        return f"the nodes of this network run {own.system!r}, not {theirs.system!r}"
    if (different := other_layout(own, theirs) or other_settings(own, theirs)) is not None:
        return different
    if theirs.oldest > own.newest or theirs.newest < own.oldest:
        spoken = f"node {theirs.address} speaks versions {theirs.oldest} to {theirs.newest} of the protocol"
        return f"{spoken}, node {own.address} versions {own.oldest} to {own.newest}: update one of them"
    return None


def other_layout(own: Greeting, theirs: Greeting) -> str | None:
    """Why what nodes of another version of the system compute does not fit; None if it does.

    >>> ours = Greeting(1, 1, "plant", 7, None, "hope-kbpp", (("layout", "2"),))
    >>> other_layout(ours, ours._replace(address=8, settings=()))
    "the nodes of this network have layout 2 of 'hope-kbpp', not 1: run the same version at all nodes"
    """
    mine, other = (dict(each.settings).get(LAYOUT, "1") for each in (own, theirs))
    if mine == other:
        return None
    told = f"the nodes of this network have layout {mine} of {own.system!r}, not {other}"
    return f"{told}: run the same version at all nodes"


def other_settings(own: Greeting, theirs: Greeting) -> str | None:
    """Which settings differ, and how; None if none that both tell does.

    >>> ours = Greeting(1, 1, "plant", 7, None, "tree", (("fanout", "4"), ("heartbeat", "1.0")))
    >>> other_settings(ours, ours._replace(address=8, settings=(("fanout", "8"), ("heartbeat", "1.0"))))
    "the nodes of this network have fanout = 4, not 8: give all nodes the same settings of 'tree'"
    """
    told = dict(theirs.settings)
    different = [
        f"{name} = {value}, not {told[name]}"
        for name, value in own.settings
        if told.get(name, value) != value
    ]
    if not different:
        return None
    told_so = " and ".join(different)
    return f"the nodes of this network have {told_so}: give all nodes the same settings of {own.system!r}"


def greeting(
    network: str,
    address: Address,
    endpoint: Endpoint | None,
    system: str,
    settings: tuple[tuple[str, str], ...] = (),
) -> Greeting:
    """What a node of this version says."""
    return Greeting(OLDEST, VERSION, network, address, endpoint, system, settings)
