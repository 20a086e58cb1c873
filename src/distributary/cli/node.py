"""Runs a broker of a network, until SIGTERM or Ctrl-C.

The file says who it is, where it listens and through whom it joins:

  name = "hall-2"
  network = "plant"
  system = "tree"
  listen = "127.0.0.1:7001"
  contacts = ["127.0.0.1:7000"]      # left out by the first node of a network
  status = "127.0.0.1:7101"          # /health and /metrics
  data = "hall-2.data"               # what must survive the process

Beyond loopback it listens only with TLS: [tls] with certificate, key and authority. What happens is told on
standard error, a line each with the time in UTC. A node that is started again with its data goes on as what
it was; its disk being full or damaged ends it, with the reason and the exit code 1.

examples:
  distributary node hall-1.toml
  distributary node hall-2.toml --ready hall-2.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from distributary.cli.terminal import FAILED, WELL, add_options, describe, say


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    command.add_argument("file", type=Path, metavar="FILE", help="the node, in TOML")
    add_options(command, ("--ready FILE", Path, "write where it listens, in JSON, as soon as it does"))
    command.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    from distributary.live.event_loop import run_node
    from distributary.live.process import serve
    from distributary.live.settings import NodeSettings

    well = run_node(serve(NodeSettings(parsed.file), say, parsed.ready))
    return WELL if well else FAILED
