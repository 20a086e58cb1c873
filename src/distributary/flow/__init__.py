"""Stream queries: graphs of operators over events, what they mean, and how they run piece by piece.

    from distributary.flow import Catalogue, QueryBuilder, Source, answer

Rooms: `schema`, `source`, `window`, `expression*` and `aggregates` are the language; `operators`, `windowed`
and `function` the operations; `query` and `query_file` how queries are written; `catalogue` what they mean
together; `interpreter` the oracle; `running` and `splitting` how operators run incrementally, move, and are
replicated.
"""

from __future__ import annotations

from distributary.flow.catalogue import BoundOperator, Catalogue, SharedOperator, Sharing, Stream
from distributary.flow.function import Function
from distributary.flow.intake import Intake
from distributary.flow.interpreter import Answer, answer, apply, interpret
from distributary.flow.operators import Copy, Filter, Map, Operation, Rename, Split, Union
from distributary.flow.problems import CombinedError, QueryError
from distributary.flow.query import Operator, Query, QueryBuilder
from distributary.flow.query_file import make_operation, read_catalogue, read_query_file
from distributary.flow.running import BEGINNING, END, Running, start
from distributary.flow.running_graph import RunningGraph
from distributary.flow.schema import Item, Schema, Type
from distributary.flow.source import SetAside, Source, read_events
from distributary.flow.splitting import Branch, Gather, Splitting, splitting_of
from distributary.flow.window import CountWindow, TimeWindow, parse_duration, parse_window
from distributary.flow.windowed import Aggregate, Count, Join, Sort, Truncate, Unique

__all__ = [
    "BEGINNING",
    "END",
    "Aggregate",
    "Answer",
    "BoundOperator",
    "Branch",
    "Catalogue",
    "CombinedError",
    "Copy",
    "Count",
    "CountWindow",
    "Filter",
    "Function",
    "Gather",
    "Intake",
    "Item",
    "Join",
    "Map",
    "Operation",
    "Operator",
    "Query",
    "QueryBuilder",
    "QueryError",
    "Rename",
    "Running",
    "RunningGraph",
    "Schema",
    "SetAside",
    "SharedOperator",
    "Sharing",
    "Sort",
    "Source",
    "Split",
    "Splitting",
    "Stream",
    "TimeWindow",
    "Truncate",
    "Type",
    "Union",
    "Unique",
    "answer",
    "apply",
    "interpret",
    "make_operation",
    "parse_duration",
    "parse_window",
    "read_catalogue",
    "read_events",
    "read_query_file",
    "splitting_of",
    "start",
]
