"""Stream queries: graphs of operators over events, what they mean, and how they run piece by piece.

    from distributary.flow import Catalogue, QueryBuilder, Source, answer

In reading order:

- `language`: sources, operations, queries, and how they are written in Python and TOML.
- `entries`: items that operators publish under topics of their own, as items of the sources that read them.
- `aggregates`: the arithmetic of count, sum, average, min and max.
- `catalogue`: all sources and queries together, what is wrong with them, and what they have in common.
- `interpreter`: what queries mean; the oracle of every engine.
- `intake`: how the events of a source become items while they arrive, and which are late.
- `incremental`: operators that run piece by piece, keep a state, and can be moved.
- `splitting`: how an operator is divided into replicas and a final operator.
- `thinning`: which answers of a query can be left out together, so that all others stay as they are.

What a query answers never depends on the order in which events arrive, nor on the engine that runs it.
"""

from __future__ import annotations

from distributary.flow.catalogue import Catalogue, SharedOperator
from distributary.flow.incremental.graph import RunningGraph
from distributary.flow.incremental.running import BEGINNING, END
from distributary.flow.incremental.start import start
from distributary.flow.intake import SourceIntake
from distributary.flow.interpreter import answer, apply, interpret
from distributary.flow.language.file import read_catalogue, read_query_file
from distributary.flow.language.function import Function
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.query import Operator, Query, QueryBuilder
from distributary.flow.language.schema import Item, Schema, Type
from distributary.flow.language.source import RejectedItem, Source
from distributary.flow.language.window import CountWindow, TimeWindow
from distributary.flow.language.windowed import Aggregate, Count, Join, Sort, Truncate, Unique
from distributary.flow.splitting import UnionBranch, splitting_of

__all__ = [
    "BEGINNING",
    "END",
    "Aggregate",
    "Catalogue",
    "Copy",
    "Count",
    "CountWindow",
    "FilterOperation",
    "Function",
    "Item",
    "Join",
    "Map",
    "Operation",
    "Operator",
    "Query",
    "QueryBuilder",
    "RejectedItem",
    "Rename",
    "RunningGraph",
    "Schema",
    "SharedOperator",
    "Sort",
    "Source",
    "SourceIntake",
    "Split",
    "TimeWindow",
    "Truncate",
    "Type",
    "Union",
    "UnionBranch",
    "Unique",
    "answer",
    "apply",
    "interpret",
    "read_catalogue",
    "read_query_file",
    "splitting_of",
    "start",
]
