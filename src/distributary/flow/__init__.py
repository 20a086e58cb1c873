"""Stream queries: graphs of operators over events, what they mean, and how they run piece by piece.

    from distributary.flow import Catalogue, QueryBuilder, Source, answer

Rooms: `schema`, `source`, `window`, `expression*` and `aggregates` are the language; `operators`, `windowed`
and `function` the operations; `query` and `query_file` how queries are written; `catalogue` what they mean
together; `interpreter` the oracle; `running` and `splitting` how operators run incrementally, move, and are
replicated.
"""

from __future__ import annotations

from distributary.flow.catalogue import BoundOperator, Catalogue, SharedOperator, Sharing, Stream
from distributary.flow.incremental.graph import RunningGraph
from distributary.flow.incremental.running import BEGINNING, END, RunningOperator
from distributary.flow.incremental.start import start
from distributary.flow.intake import SourceIntake
from distributary.flow.interpreter import QueryAnswer, answer, apply, interpret
from distributary.flow.language.file import make_operation, read_catalogue, read_query_file
from distributary.flow.language.function import Function
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.problems import CombinedError, QueryError
from distributary.flow.language.query import Operator, Query, QueryBuilder
from distributary.flow.language.schema import Item, Schema, Type
from distributary.flow.language.source import RejectedItem, Source, read_events
from distributary.flow.language.window import CountWindow, TimeWindow, parse_duration, parse_window
from distributary.flow.language.windowed import Aggregate, Count, Join, Sort, Truncate, Unique
from distributary.flow.splitting import Gather, Splitting, UnionBranch, splitting_of

__all__ = [
    "BEGINNING",
    "END",
    "Aggregate",
    "BoundOperator",
    "Catalogue",
    "CombinedError",
    "Copy",
    "Count",
    "CountWindow",
    "FilterOperation",
    "Function",
    "Gather",
    "Item",
    "Join",
    "Map",
    "Operation",
    "Operator",
    "Query",
    "QueryAnswer",
    "QueryBuilder",
    "QueryError",
    "RejectedItem",
    "Rename",
    "RunningGraph",
    "RunningOperator",
    "Schema",
    "SharedOperator",
    "Sharing",
    "Sort",
    "Source",
    "SourceIntake",
    "Split",
    "Splitting",
    "Stream",
    "TimeWindow",
    "Truncate",
    "Type",
    "Union",
    "UnionBranch",
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
