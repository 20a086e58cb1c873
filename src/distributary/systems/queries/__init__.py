"""A network of stream queries: XFlow (003, chapter 5). Operators run at brokers and move while items flow.

For others: `FlowBroker` is a node, made with the settings of `settings`; its clients are given `QueryResult`s
and `Withdrawal`s. Message kinds are grouped by purpose, for metrics: `DATA`, `CONTROL`, `STATISTICS`,
`OPTIMISATION`, `CHECKPOINT_MESSAGES`, `LINK_MESSAGES`, `SHEDDING_MESSAGES`, and `TrafficCounts`, which counts
as statistics. Every client gets exactly the interpreter's answer, whatever is moved, divided, lost or sent
twice meanwhile; or, where load is shed, the part of it that it was told.

In reading order, with the parts of the seed's Figure 5.3:

- `settings`: what a network is told when it is made. `messages`: what nodes send each other.
- `links`, `link_meter`: what nodes measure of the links between them, by probes. `processing`: the processor
  of a node, and what waits for it.
- `own_metrics`, `own_metrics_meter`: what users have nodes measure besides.
- `connections`: one ordered connection to each other node (connection manager).
- `retention`: what is kept until it is acknowledged.
- `publications`, `ways`, `routes`, `router`: streams, their readers, and the routes between them (pub/sub
  manager, router). `stream_trees`: the trees of operators' streams.
- `thinning`: what operators of a node leave out while queries are thinned out.
- `traffic`, `engine`: operators and clients of a node (operator engine). `stream_order`: answers in
  stream order, for clients who ask for it.
- `stream_subscriptions`: what subscribers at a node are delivered of streams.
- `reconfiguration`: moving and dividing operators (query manager).
- `source_trees`, `tree_rules`, `source_registry`, `registry`: sources, their trees and how these are
  restructured, queries, and where each stream is (bootstrap node).
- `reader_names`: as whom clients read. `listing`: what is registered, for clients.
- `registry_failover`: primary and standby of the registry.
  `checkpoints`: operators of lost nodes continue.
- `node_model`, `statistics`: what a node measures, and rounds of values up and down the trees (statistics
  manager).
- `local_goals`, `probes`, `local_problem`, `snapshot`, `proposals`, `optimiser`: the network improves its
  placement by itself, with what a neighbourhood knows or with a snapshot of the whole (optimiser).
- `client_shares`, `shedding_registry`, `shedding`: queries are thinned out while nodes have too much to do.
- `broker`: the node as a whole, and what its clients call (query manager).
- `source_events`, `client_broker`, `options`: the same for clients who are elsewhere: events on their way to
  the proxies of their sources, when what was asked for is in force, and what a user chooses of a network.

docs/query-network.md explains the protocols.
"""

from distributary.systems.queries import messages
from distributary.systems.queries.broker import FlowBroker, QueryResult
from distributary.systems.queries.checkpoints import CHECKPOINT_MESSAGES
from distributary.systems.queries.client_shares import QueryShare
from distributary.systems.queries.links import LINK_MESSAGES
from distributary.systems.queries.listing import RegistryListing
from distributary.systems.queries.messages import DATA, TrafficCounts
from distributary.systems.queries.optimiser import OPTIMISATION, STATISTICS
from distributary.systems.queries.processing import INSTANT, Processor, TimedProcessor
from distributary.systems.queries.settings import (
    CheckpointSettings,
    QueryOptimiserSettings,
    SheddingSettings,
    Surroundings,
)
from distributary.systems.queries.shedding_registry import SHEDDING_MESSAGES
from distributary.systems.queries.stream_trees import STREAM_TREE_MESSAGES

CONTROL = (*messages.CONTROL, *STREAM_TREE_MESSAGES, RegistryListing)

__all__ = [
    "CHECKPOINT_MESSAGES",
    "CONTROL",
    "DATA",
    "INSTANT",
    "LINK_MESSAGES",
    "OPTIMISATION",
    "SHEDDING_MESSAGES",
    "STATISTICS",
    "CheckpointSettings",
    "FlowBroker",
    "Processor",
    "QueryOptimiserSettings",
    "QueryResult",
    "QueryShare",
    "RegistryListing",
    "SheddingSettings",
    "Surroundings",
    "TimedProcessor",
    "TrafficCounts",
]
