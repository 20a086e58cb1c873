"""The file of a node: `distributary node node.toml`.

network = "plant"                  # the same for all nodes; "distributary" when left out
name = "hall-1"                    # a node that comes back with its name is the one that it was
system = "tree"                    # `distributary sim list` names them
listen = "127.0.0.1:7001"          # where nodes and clients connect; port 0 takes a free one
contacts = ["127.0.0.1:7000"]      # nodes that are up; none for the first of all
status = "127.0.0.1:7101"          # /health and /metrics, on loopback only; left out: neither
data = "hall-1.data"               # what must survive the process; left out: nothing does
nodes = 16                         # about how many there will be

[settings]                         # of the system: `distributary sim list --settings` has them
fanout = 4

[tls]                              # needed as soon as `listen` or a contact is not loopback
certificate = "hall-1.crt"
key = "hall-1.key"
authority = "plant.crt"

[trace]                            # all that the node is given and wants, from its start
file = "hall-1.trace"

[delays]                           # for trials: milliseconds that whatever goes to a node takes longer
hall-2 = 40.0

[bandwidths]                       # for trials: how much goes to a node, in Mbit a second
hall-2 = 10.0

[faults]                           # for trials: /faults may disturb the links (`live.link_faults`)
seed = 1
"""

from __future__ import annotations

from dataclasses import field
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from distributary.errors import DistributaryError
from distributary.live.greeting import Endpoint, parse_endpoint
from distributary.live.lines import LineSpeed, LinkLines
from distributary.live.link_faults import LinkFaults
from distributary.live.security import TlsFiles, is_loopback
from distributary.systems.membership import address_of
from distributary.toml_files import Names, Text, read_toml, toml_table, validated

Count = Annotated[int, Field(ge=1, description="a whole number of at least 1")]
Milliseconds = Annotated[float, Field(ge=0, le=60_000, description="milliseconds, 0 to 60,000")]
Megabits = Annotated[float, Field(gt=0, le=1e6, description="Mbit a second, above 0")]


@toml_table
class TlsTable:
    """A table [tls]; paths are relative to the file, as is that of `data`."""

    certificate: Text
    key: Text
    authority: Text


@toml_table
class FaultsTable:
    """A table [faults]."""

    seed: int = 0


@toml_table
class TraceTable:
    """A table [trace]; the path is relative to the file."""

    file: Text


@toml_table
class NodeTable:
    """The whole file."""

    name: Text
    network: Text = "distributary"
    system: Text = "tree"
    listen: Text = "127.0.0.1:0"
    contacts: Names = ()
    status: Text | None = None
    data: Text | None = None
    nodes: Count = 16
    settings: dict[str, Any] = field(default_factory=dict)
    tls: TlsTable | None = None
    delays: dict[str, Milliseconds] = field(default_factory=dict)
    bandwidths: dict[str, Megabits] = field(default_factory=dict)
    faults: FaultsTable | None = None
    trace: TraceTable | None = None


class NodeSettings:
    """What a file says, read and checked.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "node.toml")
    >>> _ = path.write_text('name = "hall-1"')
    >>> NodeSettings(path).listen
    Endpoint(host='127.0.0.1', port=0)
    """

    def __init__(self, path: Path) -> None:
        table = validated(NodeTable, read_toml(path), str(path))
        self.table, self.path = table, path
        try:
            self.listen = parse_endpoint(table.listen)
            self.contacts = tuple(map(parse_endpoint, table.contacts))
            self.status: Endpoint | None = parse_endpoint(table.status) if table.status else None
        except DistributaryError as error:
            raise DistributaryError(f"{path}: {error}") from None
        if self.status is not None and not is_loopback(self.status.host):
            raise DistributaryError(f"{path}: status: {self.status.host} is not loopback; use 127.0.0.1")
        self.trace: Path | None = path.parent / table.trace.file if table.trace else None
        self.data = None if table.data is None else path.parent / table.data
        self.tls: TlsFiles | None = None
        if table.tls is not None:
            files = (table.tls.certificate, table.tls.key, table.tls.authority)
            self.tls = TlsFiles(*(path.parent / each for each in files))

    def lines(self) -> LinkLines:
        """The lines to other nodes, as slow as the file wants them, with faults if it has those."""
        table = self.table
        speeds = {
            address_of(table.network, name): LineSpeed(
                table.delays.get(name, 0.0) / 1000, table.bandwidths.get(name, inf) * 1e6 / 8
            )
            for name in sorted({*table.delays, *table.bandwidths})
        }
        if table.faults is None:
            return LinkLines(speeds)
        return LinkLines(speeds, LinkFaults(table.faults.seed, partial(address_of, table.network)))
