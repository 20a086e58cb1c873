"""The table `[follow]` of a pipeline's file: where the subscriptions come from, and how often it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from distributary import toml_files as toml
from distributary.filters.kinds import added_kinds
from distributary.model import BUILT_IN_FILTERS
from distributary.spark.pipeline.formats import flat_settings
from distributary.spark.pipeline.keys import Interval, Place, Settings, seconds_of

ColumnNames = Annotated[
    Mapping[str, str],
    BeforeValidator(flat_settings),
    Field(description='a table such as { id = "rule", subscriber = "team" }'),
]


@toml.toml_table
class FollowedTable:
    """Which table the subscriptions of the store follow."""

    format: Annotated[
        Literal["delta", "parquet", "csv", "jdbc"],
        Field(description='one of "delta", "parquet", "csv" and "jdbc"'),
    ]
    path: Place | None = None
    options: Settings = field(default_factory=dict)
    """For Delta those of its storage, for JDBC those of Spark's reader."""
    columns: ColumnNames = field(default_factory=dict)
    """The column of each field, where names differ; columns that are not named are passed over then."""
    every: Interval = "1 minute"

    @property
    def seconds(self) -> float:
        """How many seconds are between two looks."""
        return seconds_of(self.every)

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with keys that are right each by itself: key and text."""
        if self.format == "jdbc":
            yield from self._jdbc_faults()
        elif self.path is None:
            yield "path", f'is missing; the format "{self.format}" is read from a file or directory'
        if self.format in ("parquet", "csv") and self.options:
            yield "options", f'are for Delta and JDBC; the format is "{self.format}"'
        if seconds_of(self.every) < 0.1:
            yield "every", f'is "{self.every}"; it must be 100 milliseconds at least'
        known = ("id", "subscriber", *BUILT_IN_FILTERS, *added_kinds())
        for name in self.columns:
            if name not in known:
                near = toml.suggestion(name, list(known))
                yield f"columns.{name}", f"is no field of a subscription: {near}"
        for name in ("id", "subscriber"):
            if self.columns and name not in self.columns:
                yield "columns", f'does not say which column is the {name}: {name} = "..."'

    def _jdbc_faults(self) -> Iterator[tuple[str, str]]:
        given = {name.lower() for name in self.options}
        if self.path is not None:
            yield "path", 'is not for "jdbc": options has url, and dbtable or query'
        if "url" not in given:
            yield "options", 'lacks url, such as "jdbc:postgresql://localhost/rules"'
        if not given & {"dbtable", "query"}:
            yield "options", "lacks dbtable or query: what to read"
