"""A node of a version of the protocol that there is not yet: `python -m live.next_version node FILE`.

It has a field more than today's in the heartbeats of a tree, and a kind of message more, which its nodes send
to their parents and children with every heartbeat.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

NUMBER = 60_000
"""Of the kind of messages that today's version has not."""


class LoadNews(NamedTuple):
    """How much a node has to do: a kind of message of the next version."""

    load: float


def upgrade() -> None:
    """Make this process one of the next version; before anything else of it is loaded."""
    from distributary.overlay import kinds

    kinds.NUMBERS["live.next_version.LoadNews"] = NUMBER
    from distributary.live import codec
    from distributary.overlay.tree import messages

    codec.VERSION += 1  # and OLDEST stays: the version before is understood

    before = messages.Heartbeat
    more = {**before.__annotations__, "load": float}
    later: Any = NamedTuple("Heartbeat", list(more.items()))
    later.__new__.__defaults__ = (*(before._field_defaults.values()), 0.5)
    later._field_defaults = {**before._field_defaults, "load": 0.5}
    later.__module__, later.__qualname__ = before.__module__, before.__qualname__
    later.__annotations__ = more
    messages.Heartbeat = later  # type: ignore[misc]

    from distributary.overlay.tree.node import TreeNode

    def tell(tree: TreeNode, about: object) -> None:
        for to in (tree.parent, *tree.children):
            if to is not None:
                tree.post(to, LoadNews(0.5))  # in a courier's packet
                tree.node.send(to, LoadNews(0.5))
        heartbeat(tree, about)

    def register(tree: TreeNode) -> None:
        plainly(tree)
        tree.node.handle(LoadNews, lambda message, sender: heard.append(message))

    heard: list[LoadNews] = []
    heartbeat, plainly = TreeNode._each_heartbeat, TreeNode._register
    TreeNode._each_heartbeat, TreeNode._register = tell, register  # type: ignore[method-assign]


if __name__ == "__main__":
    from live import next_version

    next_version.upgrade()
    from distributary.cli.main import main

    sys.exit(main(sys.argv[1:]))
