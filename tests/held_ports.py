"""Ports of loopback for servers that are killed and started again: nobody else gets them meanwhile.

A port that was merely free once may be taken while its server is down: the system gives it to any connection
that begins on this machine, and keeps it for a minute after that has ended. The server then cannot listen.
Here the test holds the port by a socket that is bound and does not listen: beside it a server may listen that
sets SO_REUSEADDR, as those of asyncio and of Java do, and no connection begins there.
"""

from __future__ import annotations

import socket
import weakref


class HeldPorts:
    """Ports that belong to this object for as long as it lives."""

    def __init__(self, count: int = 1) -> None:
        held = [socket.socket() for _ in range(count)]
        self._finalizer = weakref.finalize(self, _close, held)
        for each in held:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        self.numbers = tuple(int(each.getsockname()[1]) for each in held)


def _close(held: list[socket.socket]) -> None:
    for each in held:
        each.close()
