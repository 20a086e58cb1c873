"""A pipeline as its TOML file says it: frozen data, checked in full before anything is started.

Rules: every key is known or it is an error, with the nearest known name as a suggestion; all errors of a file
are told at once, each with its table and key, what was given and what would be right; a path that is not
absolute (and no URL) counts from the directory of the file; no place is read or written for two purposes.

The tables and keys are listed in docs/pipeline.md. Nothing here starts Spark.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, StrictBool, ValidationInfo, field_validator

from distributary import toml_files as toml
from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue
from distributary.flow.language.file import read_query_file
from distributary.kafka_values.decoder import ValueFormat, value_faults
from distributary.spark.columns import EventColumns
from distributary.spark.index.build import IndexOptions, Strategy
from distributary.spark.pipeline.followed.settings import FollowedTable
from distributary.spark.pipeline.formats import FILE_FORMATS as FILE_FORMATS
from distributary.spark.pipeline.formats import RAW_FORMATS, TABLE_FORMATS, format_faults
from distributary.spark.pipeline.keys import Format, Interval, Place, SchemaText, Settings
from distributary.spark.pipeline.schema_text import schema_columns
from distributary.spark.places import UNREADABLE
from distributary.store import SubscriptionStore, open_store

DELIVERY_COLUMNS = ("event_id", "subscriber", "subscriptions", "batch", "each")
"""Column names of deliveries that no carried column may take."""

SUBSCRIBER = "{subscriber}"
"""What stands for the subscriber in the name of a Kafka topic."""


def _sound_queries(path: str) -> Catalogue:
    """The queries of a file, all of which must be sound."""
    try:
        catalogue = read_query_file(path)
        catalogue.check()
    except DistributaryError as error:
        raise toml.FaultyValueError(("", line) for line in str(error).splitlines()) from None
    return catalogue


def _loaded_modules(names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """The modules that register filter kinds, loaded; they may stand beside the file."""
    home = str((info.context or {}).get("home", ""))
    sys.path.insert(0, home)
    try:
        for name in names:
            import_module(name)
    except Exception as error:  # whatever a module of somebody else raises
        reason = f'"{name}" cannot be loaded: {type(error).__name__}: {error}'
        raise toml.FaultyValueError([("", reason)]) from None
    finally:
        sys.path.remove(home)
    return names


Each = Annotated[
    StrictBool | tuple[toml.Text, ...],
    Field(description='true, false or a list of strings such as ["ann", "bob"]'),
]


@toml.toml_table
class PipelineSource:
    """Where the events come from: any format of Spark's that can be read as a stream."""

    format: Format
    path: Place | None = None
    options: Settings = field(default_factory=dict)
    schema: SchemaText | None = None
    """DDL, or the JSON of a Spark schema."""
    parse: Literal["json", "avro", "protobuf", "cloudevents"] | None = None
    """What the column `value` holds: JSON text, or of Kafka's messages what `messages` reads."""
    registry: toml.Text | None = None
    """The address of the schema registry, for Avro and Protobuf."""
    schemas: Place | None = None
    """Or the directory of their schemas."""
    tombstones: toml.Truth = False
    """Whether Kafka's messages without a value are events too."""

    @property
    def finite(self) -> bool:
        """Whether its numbers are finite: JSON has no others, unless an option says so."""
        options = {name.lower(): value for name, value in self.options.items()}
        return (self.format == "json" or self.parse is not None) and options.get(
            "allownonnumericnumbers"
        ) != "true"

    @property
    def reads_messages(self) -> bool:
        """Whether tasks of ours make JSON of the values."""
        return self.parse not in (None, "json")

    @property
    def value_format(self) -> ValueFormat | None:
        """How values are read that need a schema; None where they need none."""
        if self.parse == "avro" or self.parse == "protobuf":
            return ValueFormat(self.parse, self.registry, self.schemas)
        return None

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with keys that are right each by itself: key and text."""
        yield from format_faults(self.format, self.options)
        yield from value_faults(self.parse or "", self.registry, self.schemas)
        if self.reads_messages and self.format != "kafka":
            yield "parse", f'is "{self.parse}", which is for the format "kafka"; this is "{self.format}"'
        if self.tombstones and not self.reads_messages:
            yield "tombstones", 'can be events where parse is "avro", "protobuf" or "cloudevents"'
        of_files = self.format in FILE_FORMATS
        if (of_files or self.format == "text") and self.path is None and "path" not in self.options:
            yield "path", f'is missing; the format "{self.format}" reads a directory'
        if self.schema is None and (self.parse or of_files):
            reads = f'parse = "{self.parse}"' if self.parse else f'the format "{self.format}"'
            yield "schema", f'is missing; {reads} needs one such as "id STRING, topic STRING"'
        if self.schema is not None and UNREADABLE in map(str.lower, schema_columns(self.schema)):
            yield "schema", f"has a column {UNREADABLE}, a name that is taken"
        if self.format in RAW_FORMATS and self.parse is None:
            yield "parse", f'is missing; the format "{self.format}" gives raw values: parse = "json"'
        if self.parse and of_files:
            yield "parse", f'is for raw values; the format "{self.format}" has columns already'
        if "mode" in {name.lower() for name in self.options}:
            yield "options.mode", "cannot be set: what cannot be read goes to the quarantine"


@toml.toml_table
class PipelineEvents:
    """Which columns of the source mean what; all others are attributes."""

    id: toml.Text = "id"
    topic: toml.Text = "topic"
    document: toml.Text = "document"
    order: toml.Text | None = None


@toml.toml_table
class PipelineSubscriptions:
    """Which store holds the subscriptions, and how events are brought to them."""

    store: Annotated[Place, Field(description='a string such as "subscriptions"')]
    strategy: Strategy = "auto"
    workspace: Place | None = None
    """Where what is built from the subscriptions goes, on a path that all machines see."""
    lint: bool = True
    """Whether to tell at the start of subscriptions that cannot match such events."""


@toml.toml_table
class Sink:
    """Where deliveries go. `each` tells who gets a directory or a Kafka topic of their own."""

    format: Format = "parquet"
    path: Place | None = None
    options: Settings = field(default_factory=dict)
    columns: Annotated[toml.Names, Field(description='a list of strings such as ["topic", "price"]')] = ()
    each: Each = False
    topic: toml.Text | None = None
    table: toml.Text | None = None
    """The name of an Iceberg table in its catalog."""
    exactly_once: toml.Truth = False
    """Whether the driver writes each batch to Kafka in one transaction."""

    @property
    def is_table(self) -> bool:
        """Whether the driver writes each batch to a table in one transaction."""
        return self.format in TABLE_FORMATS

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with keys that are right each by itself: key and text."""
        yield from format_faults(self.format, self.options)
        own = self.each if isinstance(self.each, tuple) else ()
        for key, names in (("columns", self.columns), ("each", own)):
            for name in sorted({name for name in names if names.count(name) > 1}):
                yield key, f'names "{name}" twice'
        for column in self.columns:
            if column.lower() in DELIVERY_COLUMNS:
                yield "columns", f'"{column}" is a column of every delivery already'
        if self.format == "kafka":
            yield from self._kafka_faults()
            return
        if self.topic:
            yield "topic", f'is for Kafka; the format is "{self.format}"'
        if self.exactly_once:
            told = "; a table has each batch once in any case" if self.is_table else ""
            yield "exactly_once", f'is for Kafka; the format is "{self.format}"{told}'
        yield from self._table_faults()
        if self.format not in FILE_FORMATS and self.each:
            yield "each", f'is for files and Kafka; the format is "{self.format}"'
        if self.format in FILE_FORMATS and self.path is None:
            yield "path", f'is missing; the format "{self.format}" writes to a directory'
        if self.format == "xml" and self.each:
            yield "each", 'is not possible with the format "xml"'

    def _table_faults(self) -> Iterator[tuple[str, str]]:
        if self.format == "delta" and self.path is None:
            yield "path", "is missing; a Delta table is at a path or URL"
        if self.format != "iceberg":
            if self.table:
                yield "table", f'is for Iceberg; the format is "{self.format}"'
            return
        if self.table is None:
            yield "table", 'is missing; Iceberg needs one such as "alerts.deliveries"'
        if self.path:
            yield "path", "is not for Iceberg: its catalog, which options describe, knows where the table is"

    def _kafka_faults(self) -> Iterator[tuple[str, str]]:
        example = f"deliveries-{SUBSCRIBER}" if self.each else "deliveries"
        if self.topic is None:
            yield "topic", f'is missing; Kafka needs one such as "{example}"'
        elif (SUBSCRIBER in self.topic) != bool(self.each):
            holds, state = ("has no", "is set") if self.each else ("has", "is not set")
            text = f'"{self.topic}" {holds} {SUBSCRIBER} in it, but each {state}; such as "{example}"'
            yield "topic", text
        if isinstance(self.each, tuple) and self.each:
            yield "each", "is a list; with Kafka it must be true or false"
        if self.each and self.exactly_once:
            yield "exactly_once", "is for one topic, so it does not go together with each"
        if "kafka.bootstrap.servers" not in self.options:
            yield "options", 'lacks kafka.bootstrap.servers, such as "localhost:9092"'


@toml.toml_table
class Trigger:
    """When a micro-batch starts: at an interval, or now with all there is, after which the pipeline ends."""

    every: Interval | None = None
    available_now: toml.Truth = False

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with keys that are right each by itself: key and text."""
        if self.every is not None and self.available_now:
            yield "every", "contradicts available_now = true; leave one of them out"


@toml.toml_table
class _Directory:
    path: Annotated[Place, Field(description='a string such as "directory"')]


@toml.toml_table
class StatusPlace:
    """Where the pipeline tells how it is, over HTTP; other machines do not reach loopback."""

    port: Annotated[int, Field(strict=True, ge=0, le=65535, description="a port such as 9464; 0 for any")]
    host: toml.Text = "127.0.0.1"


@toml.toml_table
class _SparkSettings:
    conf: Settings = field(default_factory=dict)

    def faults(self) -> Iterator[tuple[str, str]]:
        """Sizes without a unit, with which Java does not start: key and text."""
        for name, value in self.conf.items():
            if name.lower().endswith(".memory") and not re.fullmatch(r"\s*\d+ *[kmgtpKMGTP][bB]?\s*", value):
                yield f"conf.{name}", f'is "{value}"; it must be a size with its unit, such as "2g"'


@toml.toml_table
class _PipelineFile:
    """The whole file. Each table is checked against those before it, not against all at the end."""

    _: KW_ONLY
    name: toml.Text | None = None
    checkpoint: Place
    queries: Annotated[Place, AfterValidator(_sound_queries)] | None = None
    filters: Annotated[
        toml.Names,
        AfterValidator(_loaded_modules),
        Field(description='a list of modules such as ["near_places"]'),
    ] = ()
    source: PipelineSource
    events: Annotated[PipelineEvents, Field(validate_default=True)] = PipelineEvents()
    subscriptions: PipelineSubscriptions
    follow: FollowedTable | None = None
    sink: Sink
    archive: _Directory | None = None
    quarantine: _Directory | None = None
    metrics: _Directory | None = None
    trigger: Trigger = Trigger()
    status: StatusPlace | None = None
    spark: _SparkSettings = _SparkSettings()

    @field_validator("*")
    @classmethod
    def _check(cls, value: object, info: ValidationInfo) -> object:
        toml.report(info, _faults(str(info.field_name), value, info.data))
        return value


def _faults(name: str, table: object, before: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with a table of the file by itself, and against those before it."""
    if isinstance(table, PipelineSource | Sink | Trigger | FollowedTable | _SparkSettings):
        yield from table.faults()
    source = before.get("source")
    if source is not None and source.schema is not None:
        yield from _column_faults(name, table, schema_columns(source.schema))
    key, place = _place_of(name, table)
    if place is None or place == f"{before.get('checkpoint')}/quarantine":
        return
    for other, each in before.items():
        other_key, earlier = _place_of(other, each)
        if earlier and (f"{place}/".startswith(f"{earlier}/") or f"{earlier}/".startswith(f"{place}/")):
            at = f"[{other}] {other_key}" if other_key else other
            yield key, f"{place} overlaps with {at}; give each a directory of its own"


def _place_of(name: str, table: object) -> tuple[str, str | None]:
    """The place that a key of the file says is read or written, and under which key of its table."""
    if isinstance(table, PipelineSource | Sink | FollowedTable | _Directory):
        return "path", table.path
    if isinstance(table, PipelineSubscriptions):
        return "store", table.store
    return "", table if name == "checkpoint" and isinstance(table, str) else None


def _column_faults(name: str, table: object, columns: list[str]) -> Iterator[tuple[str, str]]:
    """Columns that a table names and the source's schema lacks."""
    if isinstance(table, PipelineEvents):
        for key, column in asdict(table).items():
            # The defaults of topic and document name what an event may have, not what it must have.
            wanted = key == "id" or column not in ("topic", "document", None)
            if wanted and column not in columns:
                yield (
                    key,
                    f'is "{column}"; [source] schema has no such column: {toml.suggestion(column, columns)}',
                )
    elif isinstance(table, Sink):
        for column in table.columns:
            if column not in columns:
                yield (
                    "columns",
                    f'"{column}" is no column of [source] schema: {toml.suggestion(column, columns)}',
                )
    elif name == "archive" and table is not None and "batch" in (each.lower() for each in columns):
        yield "path", "cannot be: [source] schema has a column batch, a name that the archive needs"


@dataclass(frozen=True)
class Pipeline:
    """All that `distributary run` needs to know, and the store that it uses, opened once."""

    name: str
    checkpoint: str
    source: PipelineSource
    events: PipelineEvents
    subscriptions: PipelineSubscriptions
    sink: Sink
    quarantine: str
    archive: str | None
    metrics: str | None
    queries: Catalogue | None
    """The stream queries that run beside the matching."""
    trigger: Trigger
    spark: Mapping[str, str]
    status: StatusPlace | None = None
    """Where it tells how it is, if anywhere."""
    follow: FollowedTable | None = None
    """The table that the subscriptions follow, if any."""

    @cached_property
    def store(self) -> SubscriptionStore:
        """The store of the subscriptions; unless somebody has made it, reading it is an error."""
        return open_store(self.subscriptions.store, workspace=self.subscriptions.workspace)

    @property
    def columns(self) -> EventColumns:
        """Which columns of the events mean what."""
        named = self.events
        finite = self.source.finite
        return EventColumns(named.id, named.topic, named.document, named.order, UNREADABLE, finite=finite)

    @property
    def index_options(self) -> IndexOptions:
        """How the subscriptions are indexed; without an order no tolerance can be kept."""
        return IndexOptions(self.events.order is not None, self.subscriptions.strategy)

    @property
    def commits(self) -> str:
        """Where the record of each finished batch is kept."""
        return f"{self.metrics or self.checkpoint}/batches"


def backfill_of(pipeline: Pipeline, path: str, into: str) -> Pipeline:
    """A pipeline over older files, to the same subscriptions, with all its outputs below a directory.

    It takes what there is and ends; the pipeline itself, its checkpoint and its outputs are not touched. All
    files are one micro-batch unless an option of the source says otherwise, so tolerances see the whole
    history in order.
    """
    if pipeline.source.format not in FILE_FORMATS or pipeline.sink.format not in FILE_FORMATS:
        raise DistributaryError("a backfill is for a pipeline that reads and writes files")
    home = os.path.abspath(into)
    return replace(
        pipeline,
        name=f"{pipeline.name} backfill",
        checkpoint=f"{home}/checkpoint",
        source=replace(pipeline.source, path=os.path.abspath(path)),
        sink=replace(pipeline.sink, path=f"{home}/deliveries"),
        quarantine=f"{home}/quarantine",
        archive=f"{home}/archive" if pipeline.archive else None,
        metrics=f"{home}/metrics" if pipeline.metrics else None,
        trigger=Trigger(available_now=True),
        status=None,
        follow=None,
    )


def derived_in(archive: str) -> str:
    """Where in an archive the derived items are."""
    return f"{archive}/_derived"


def load_pipeline(path: Path | str) -> Pipeline:
    """Read and check a pipeline's file."""
    return _pipeline(toml.read_toml(path), str(path))


def parse_pipeline(text: str, name: str = "pipeline.toml") -> Pipeline:
    """Check a pipeline's text; `name` is the file it came from, from which relative paths count.

    >>> parse_pipeline("checkpiont = 'c'").checkpoint
    Traceback (most recent call last):
        ...
    distributary.errors.DistributaryError: pipeline.toml: 5 things are wrong:
      checkpiont: there is no such key; did you mean checkpoint?
      checkpoint: is missing; it must be a string such as "checkpoint"
      [source]: the table is missing
      [subscriptions]: the table is missing
      [sink]: the table is missing
    """
    return _pipeline(toml.parse_toml(text, name), name)


def _pipeline(given: Mapping[str, Any], name: str) -> Pipeline:
    file = toml.validated(_PipelineFile, given, name, home=Path(name).absolute().parent)
    archive, quarantine, metrics = (
        table.path if table else None for table in (file.archive, file.quarantine, file.metrics)
    )
    timed = file.trigger.every or file.trigger.available_now
    return Pipeline(
        name=file.name or Path(name).stem,
        checkpoint=file.checkpoint,
        source=file.source,
        events=file.events,
        subscriptions=file.subscriptions,
        sink=file.sink,
        quarantine=quarantine or f"{file.checkpoint}/quarantine",
        archive=archive,
        metrics=metrics,
        queries=cast(Catalogue | None, file.queries),  # which the validator has read
        trigger=file.trigger if timed else Trigger("1 second"),
        spark=file.spark.conf,
        status=file.status,
        follow=file.follow,
    )
