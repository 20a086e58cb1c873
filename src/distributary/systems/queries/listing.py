"""What is registered, for clients that look for streams to read (003, section 5.1.3).

A client of any broker asks the registry; so users find sources and the streams of running operators, with
their schemas, and can use in their queries what others compute already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from distributary.flow import Catalogue, Schema
from distributary.overlay.node import Address
from distributary.systems.queries.messages import OperatorSpec, StreamLocation


class ListedStream(NamedTuple):
    """A stream that queries and subscriptions can read."""

    name: str
    topic: str | None
    schema: Schema
    is_source: bool


class ListedOperator(NamedTuple):
    """An operator that runs."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    node: Address
    used_as: tuple[str, ...]
    """The operators of queries that it runs in place of, as `query.operator`."""


class ListedQuery(NamedTuple):
    """A query whose client is served."""

    name: str
    client: Address
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class RegistryListing:
    """All that is registered, by name, as the registry knew it when it was asked."""

    streams: tuple[ListedStream, ...]
    operators: tuple[ListedOperator, ...]
    queries: tuple[ListedQuery, ...]


def registry_listing(
    catalogue: Catalogue,
    specs: Mapping[str, OperatorSpec],
    runs: Mapping[str, str],
    locations: Mapping[str, StreamLocation],
    clients: Mapping[str, Address],
) -> RegistryListing:
    """What a registry knows: `runs` has the operators that run in place of those of queries."""
    streams = [one for one in catalogue.streams.values() if one.published]
    used: dict[str, list[str]] = {}
    for name, running in runs.items():
        used.setdefault(running, []).append(name)
    return RegistryListing(
        tuple(
            ListedStream(one.name, one.topic, one.schema, one.name in catalogue.sources)
            for one in sorted(streams, key=lambda one: one.name)
        ),
        tuple(
            ListedOperator(
                name,
                spec.operation.kind,
                spec.inputs,
                locations[name].host,
                tuple(sorted(used.get(name, ()))),
            )
            for name, spec in sorted(specs.items())
        ),
        tuple(
            ListedQuery(name, client, tuple(catalogue.outputs(name)))
            for name, client in sorted(clients.items())
        ),
    )
