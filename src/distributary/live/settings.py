"""The file of a node: `distributary node node.toml`.

network = "plant"                  # the same for all nodes; "distributary" when left out
name = "hall-1"                    # a node that comes back with its name is the one that it was
system = "tree"                    # `distributary sim list` names them
listen = "127.0.0.1:7001"          # where nodes and clients connect; port 0 takes a free one
contacts = ["127.0.0.1:7000"]      # nodes that are up; none for the first of all
status = "127.0.0.1:7101"          # /health and /metrics, on loopback only; left out: neither
nodes = 16                         # about how many there will be

[settings]                         # of the system: `distributary sim list --settings` has them
fanout = 4

[tls]                              # needed as soon as `listen` or a contact is not loopback
certificate = "hall-1.crt"
key = "hall-1.key"
authority = "plant.crt"
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from distributary.errors import DistributaryError
from distributary.live.greeting import Endpoint, parse_endpoint
from distributary.live.security import TlsFiles, is_loopback
from distributary.toml_files import Names, Text, read_toml, toml_table, validated

Count = Annotated[int, Field(ge=1, description="a whole number of at least 1")]


@toml_table
class TlsTable:
    """A table [tls]; paths are relative to the file."""

    certificate: Text
    key: Text
    authority: Text


@toml_table
class NodeTable:
    """The whole file."""

    name: Text
    network: Text = "distributary"
    system: Text = "tree"
    listen: Text = "127.0.0.1:0"
    contacts: Names = ()
    status: Text | None = None
    nodes: Count = 16
    settings: dict[str, Any] = field(default_factory=dict)
    tls: TlsTable | None = None


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
        self.table = table
        try:
            self.listen = parse_endpoint(table.listen)
            self.contacts = tuple(map(parse_endpoint, table.contacts))
            self.status: Endpoint | None = parse_endpoint(table.status) if table.status else None
        except DistributaryError as error:
            raise DistributaryError(f"{path}: {error}") from None
        if self.status is not None and not is_loopback(self.status.host):
            raise DistributaryError(f"{path}: status: {self.status.host} is not loopback; use 127.0.0.1")
        self.tls: TlsFiles | None = None
        if table.tls is not None:
            files = (table.tls.certificate, table.tls.key, table.tls.authority)
            self.tls = TlsFiles(*(path.parent / each for each in files))
