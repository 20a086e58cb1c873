"""A pipeline as its TOML file says it: frozen data, checked in full before anything is started.

Rules: every key is known or it is an error, with the nearest known name as a suggestion; all errors of a file
are told at once, each with its table and key, what was given and what would be right; a path that is not
absolute (and no URL) counts from the directory of the file; no place is read or written for two purposes.

The tables and keys are listed in docs/pipeline.md. Nothing here starts Spark.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from distributary.errors import DistributaryError
from distributary.flow.language.file import read_query_file
from distributary.spark.pipeline.keys import Table, shown, suggestion

FILE_FORMATS = ("parquet", "orc", "json", "csv", "avro", "xml")
"""Formats of files in a directory: a batch is written exactly once, and reading a stream needs a schema."""

RAW_FORMATS = ("kafka", "socket", "text")
"""Formats whose rows hold the event as one raw `value`."""

Strategy = Literal["auto", "index", "rendezvous"]
STRATEGIES: tuple[Strategy, ...] = ("auto", "index", "rendezvous")
DELIVERY_COLUMNS = ("event_id", "subscriber", "subscriptions", "batch", "each")
"""Column names of deliveries that no carried column may take."""

UNREADABLE = "_unreadable"
"""The column in which a reader leaves the raw text of what it could not read."""

SUBSCRIBER = "{subscriber}"
"""What stands for the subscriber in the name of a Kafka topic."""

INTERVAL = re.compile(r"\d+(\.\d+)? *(millisecond|second|minute|hour)s?")


@dataclass(frozen=True)
class Source:
    """Where the events come from: any format of Spark's that can be read as a stream."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    """DDL, or the JSON of a Spark schema."""
    parse: str | None = None
    """`json` when the event is JSON text in a column `value`."""


@dataclass(frozen=True)
class Events:
    """Which columns of the source mean what; all others are attributes."""

    id: str = "id"
    topic: str = "topic"
    document: str = "document"
    order: str | None = None


@dataclass(frozen=True)
class Subscriptions:
    """Which store holds the subscriptions, and how events are brought to them."""

    store: str
    strategy: Strategy = "auto"
    workspace: str | None = None
    """Where what is built from the subscriptions goes, on a path that all machines see."""


@dataclass(frozen=True)
class Sink:
    """Where deliveries go. `each` tells who gets a directory or a Kafka topic of their own."""

    format: str = "parquet"
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    each: bool | tuple[str, ...] = False
    topic: str | None = None


@dataclass(frozen=True)
class Trigger:
    """When a micro-batch starts: at an interval, or now with all there is, after which the pipeline ends."""

    every: str | None = "1 second"
    available_now: bool = False


@dataclass(frozen=True)
class Pipeline:
    """All that `distributary run` needs to know."""

    name: str
    checkpoint: str
    source: Source
    events: Events
    subscriptions: Subscriptions
    sink: Sink
    quarantine: str
    archive: str | None = None
    metrics: str | None = None
    queries: str | None = None
    """The file of the stream queries that run beside the matching."""
    trigger: Trigger = Trigger()
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def commits(self) -> str:
        """Where the record of each finished batch is kept."""
        return f"{self.metrics or self.checkpoint}/batches"


def derived_in(archive: str) -> str:
    """Where in an archive the derived items are."""
    return f"{archive}/_derived"


def load_pipeline(path: Path | str) -> Pipeline:
    """Read and check a pipeline's file."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DistributaryError(f"cannot read {file}: {reason}") from None
    return parse_pipeline(text, str(file))


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
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DistributaryError(f"{name}: not TOML: {error}") from None
    reader = _Reader(Path(name).absolute().parent)
    pipeline = reader.pipeline(document, Path(name).stem)
    wrong = list(dict.fromkeys(reader.wrong))
    if wrong:
        count = "1 thing is" if len(wrong) == 1 else f"{len(wrong)} things are"
        raise DistributaryError("\n  ".join([f"{name}: {count} wrong:", *wrong]))
    return pipeline


class _Reader:
    """Reads the tables one by one; what is wrong gathers in `wrong`."""

    TABLES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "source": ("format", "path", "options", "schema", "parse"),
        "events": ("id", "topic", "document", "order"),
        "subscriptions": ("store", "strategy", "workspace"),
        "sink": ("format", "path", "options", "columns", "each", "topic"),
        "archive": ("path",),
        "quarantine": ("path",),
        "metrics": ("path",),
        "trigger": ("every", "available_now"),
        "spark": ("conf",),
    }
    REQUIRED = ("source", "subscriptions", "sink")

    def __init__(self, home: Path) -> None:
        self.home = home
        self.wrong: list[str] = []

    def pipeline(self, document: Mapping[str, Any], stem: str) -> Pipeline:
        top = Table(self.wrong, "", document, ["name", "checkpoint", "queries", *self.TABLES])
        name = top.text("name", stem, default=stem)
        checkpoint = self._place(top.text("checkpoint", "checkpoint"))
        pipeline = Pipeline(
            name=name,
            checkpoint=checkpoint,
            source=self._source(document),
            events=self._events(document),
            subscriptions=self._subscriptions(document),
            sink=self._sink(document),
            archive=self._path_of(document, "archive"),
            quarantine=self._path_of(document, "quarantine") or f"{checkpoint}/quarantine",
            metrics=self._path_of(document, "metrics"),
            queries=self._queries(top),
            trigger=self._trigger(document),
            spark=self._table(document, "spark").settings("conf", '{ "spark.driver.memory" = "4g" }'),
        )
        self._check_columns(pipeline)
        self._check_places(pipeline)
        return pipeline

    def _queries(self, top: Table) -> str | None:
        """The file of the queries, all of which must be sound."""
        given = top.optional_text("queries", "queries.toml")
        if given is None:
            return None
        path = self._place(given)
        try:
            read_query_file(path).check()
        except DistributaryError as error:
            self.wrong += [f"queries: {line}" for line in str(error).splitlines()]
        return path

    def _table(self, document: Mapping[str, Any], name: str) -> Table:
        given = document.get(name)
        if given is None and name in self.REQUIRED:
            self.wrong.append(f"[{name}]: the table is missing")
        elif given is not None and not isinstance(given, dict):
            self.wrong.append(f"{name}: is {shown(given)}; it must be a table, [{name}]")
        missing = not isinstance(given, dict)
        # What a table that is missing would have to hold need not be told as well.
        return Table([] if missing else self.wrong, name, {} if missing else given or {}, self.TABLES[name])

    def _source(self, document: Mapping[str, Any]) -> Source:
        table = self._table(document, "source")
        source = Source(
            format=table.text("format", "json").lower(),
            path=self._optional_place(table.optional_text("path", "events")),
            options=table.settings("options", '{ maxFilesPerTrigger = "1" }'),
            schema=self._schema(table),
            parse=table.choice("parse", ("json",), None),
        )
        if source.format in (*FILE_FORMATS, "text") and source.path is None and "path" not in source.options:
            table.complain("path", f'is missing; the format "{source.format}" reads a directory')
        if "schema" not in table.given and (source.parse or source.format in FILE_FORMATS):
            reads = 'parse = "json"' if source.parse else f'the format "{source.format}"'
            table.complain("schema", f'is missing; {reads} needs one such as "id STRING, topic STRING"')
        if source.format in RAW_FORMATS and source.parse is None and table.given:
            table.complain(
                "parse", f'is missing; the format "{source.format}" gives raw values: parse = "json"'
            )
        if source.parse and source.format in FILE_FORMATS:
            table.complain("parse", f'is for raw values; the format "{source.format}" has columns already')
        if "mode" in {name.lower() for name in source.options}:
            table.complain("options.mode", "cannot be set: what cannot be read goes to the quarantine")
        return source

    def _schema(self, table: Table) -> str | None:
        """DDL as it stands, or the text of the file that is named; DDL always has a blank in it."""
        given = table.optional_text("schema", "id STRING, topic STRING, price DOUBLE")
        if given is None:
            return None
        if " " in given.strip():
            text = given
        else:
            file = self.home / given.strip()
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                table.complain(
                    "schema", f'is "{given}": no file that can be read, nor a schema such as "id STRING"'
                )
                return None
        try:
            names = schema_columns(text)
        except DistributaryError as error:
            table.complain("schema", str(error))
            return None
        for name in names:
            if name.lower() == UNREADABLE:
                table.complain("schema", f"has a column {UNREADABLE}, a name that is taken")
        return text.strip()

    def _events(self, document: Mapping[str, Any]) -> Events:
        table = self._table(document, "events")
        return Events(
            id=table.text("id", "id", default="id"),
            topic=table.text("topic", "topic", default="topic"),
            document=table.text("document", "document", default="document"),
            order=table.optional_text("order", "at"),
        )

    def _subscriptions(self, document: Mapping[str, Any]) -> Subscriptions:
        table = self._table(document, "subscriptions")
        return Subscriptions(
            store=self._place(table.text("store", "subscriptions")),
            strategy=cast(Strategy, table.choice("strategy", STRATEGIES, "auto")),
            workspace=self._optional_place(table.optional_text("workspace", "/shared/workspace")),
        )

    def _sink(self, document: Mapping[str, Any]) -> Sink:
        table = self._table(document, "sink")
        sink = Sink(
            format=table.text("format", "parquet", default="parquet").lower(),
            path=self._optional_place(table.optional_text("path", "deliveries")),
            options=table.settings("options", '{ compression = "zstd" }'),
            columns=table.texts("columns", '["topic", "price"]'),
            each=self._each(table),
            topic=table.optional_text("topic", f"deliveries-{SUBSCRIBER}"),
        )
        for column in sink.columns:
            if column.lower() in DELIVERY_COLUMNS:
                table.complain("columns", f'"{column}" is a column of every delivery already')
        if sink.format in FILE_FORMATS:
            self._check_file_sink(table, sink)
        elif sink.format == "kafka":
            self._check_kafka_sink(table, sink)
        else:
            if sink.each:
                table.complain("each", f'is for files and Kafka; the format is "{sink.format}"')
            if sink.topic:
                table.complain("topic", f'is for Kafka; the format is "{sink.format}"')
        return sink

    def _each(self, table: Table) -> bool | tuple[str, ...]:
        given = table.given.get("each", False)
        if isinstance(given, bool):
            return given
        if isinstance(given, list):
            return table.texts("each", '["ann", "bob"]')
        table.complain("each", f'is {shown(given)}; it must be true, false or a list such as ["ann", "bob"]')
        return False

    def _check_file_sink(self, table: Table, sink: Sink) -> None:
        if sink.path is None and table.given.get("path") is None:
            table.complain("path", f'is missing; the format "{sink.format}" writes to a directory')
        if sink.topic:
            table.complain("topic", f'is for Kafka; the format is "{sink.format}"')
        if sink.format == "xml" and sink.each:
            table.complain("each", 'is not possible with the format "xml"')

    def _check_kafka_sink(self, table: Table, sink: Sink) -> None:
        example = f"deliveries-{SUBSCRIBER}" if sink.each else "deliveries"
        if sink.topic is None and "topic" not in table.given:
            table.complain("topic", f'is missing; Kafka needs one such as "{example}"')
        elif sink.topic is not None and (SUBSCRIBER in sink.topic) != bool(sink.each):
            holds, state = ("has no", "is set") if sink.each else ("has", "is not set")
            table.complain(
                "topic", f'"{sink.topic}" {holds} {SUBSCRIBER} in it, but each {state}; such as "{example}"'
            )
        if isinstance(sink.each, tuple) and sink.each:
            table.complain("each", "is a list; with Kafka it must be true or false")
        if "kafka.bootstrap.servers" not in sink.options:
            table.complain("options", 'lacks kafka.bootstrap.servers, such as "localhost:9092"')

    def _trigger(self, document: Mapping[str, Any]) -> Trigger:
        table = self._table(document, "trigger")
        available_now = table.truth("available_now")
        every = table.optional_text("every", "1 second")
        if every is not None and not INTERVAL.fullmatch(every.strip()):
            table.complain("every", f'is "{every}"; it must be an interval such as "500 milliseconds"')
        if every is not None and available_now:
            table.complain("every", "contradicts available_now = true; leave one of them out")
        return Trigger(None if available_now else every or "1 second", available_now)

    def _path_of(self, document: Mapping[str, Any], name: str) -> str | None:
        table = self._table(document, name)
        if name in document:
            return self._place(table.text("path", name)) or None
        return None

    def _optional_place(self, given: str | None) -> str | None:
        return None if given is None else self._place(given)

    def _place(self, given: str) -> str:
        """A URL as it is, a path as seen from the file."""
        if not given or re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", given):
            return given.rstrip("/") if given else ""
        return os.path.normpath(Path(self.home, given))

    def _check_columns(self, pipeline: Pipeline) -> None:
        if pipeline.source.schema is None:
            return
        names = schema_columns(pipeline.source.schema)
        for key in ("id", "topic", "document", "order"):
            name = getattr(pipeline.events, key)
            # The defaults of topic and document name what an event may have, not what it must have.
            wanted = key == "id" or name != getattr(Events(), key)
            if wanted and name is not None and name not in names:
                self.wrong.append(
                    f'[events] {key}: is "{name}"; [source] schema has no such column: '
                    f"{suggestion(name, names)}"
                )
        for name in pipeline.sink.columns:
            if name not in names:
                self.wrong.append(
                    f'[sink] columns: "{name}" is no column of [source] schema: {suggestion(name, names)}'
                )
        if pipeline.archive and "batch" in [name.lower() for name in names]:
            self.wrong.append("[source] schema: has a column batch, a name that the archive needs")

    def _check_places(self, pipeline: Pipeline) -> None:
        places = {
            "checkpoint": pipeline.checkpoint,
            "[source] path": pipeline.source.path,
            "[subscriptions] store": pipeline.subscriptions.store,
            "[sink] path": pipeline.sink.path,
            "[archive] path": pipeline.archive,
            "[quarantine] path": pipeline.quarantine,
            "[metrics] path": pipeline.metrics,
        }
        below_checkpoint = pipeline.quarantine == f"{pipeline.checkpoint}/quarantine"
        for (one, first), (other, second) in combinations(places.items(), 2):
            if not first or not second or (below_checkpoint and other == "[quarantine] path"):
                continue
            if f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/"):
                self.wrong.append(f"{other}: {second} overlaps with {one}; give each a directory of its own")


def schema_columns(schema: str) -> list[str]:
    """The names of a schema's columns; the types are for Spark to judge.

    >>> schema_columns("id STRING, `unit price` DOUBLE, wind STRUCT<speed: INT, from: STRING> NOT NULL")
    ['id', 'unit price', 'wind']
    """
    if schema.lstrip().startswith("{"):
        try:
            return [str(one["name"]) for one in json.loads(schema)["fields"]]
        except (ValueError, KeyError, TypeError):
            raise DistributaryError("is not the JSON of a Spark schema") from None
    names = []
    for column in _top_level_parts(schema):
        found = re.match(r"\s*(?:`((?:[^`]|``)+)`|([^\s`:,]+))(?:\s*:\s*|\s+)\S", column)
        if found is None:
            held = column.strip() or "nothing"
            raise DistributaryError(f"has {held!r} where a name and a type should be, such as 'id STRING'")
        names.append(found[1].replace("``", "`") if found[1] else found[2])
    return names


def _top_level_parts(text: str) -> list[str]:
    """The parts between commas that are outside quotes and brackets."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'\"":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts
