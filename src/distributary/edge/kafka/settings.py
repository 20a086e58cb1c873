"""What the file of `distributary serve --kafka` may say: a connection, topics to take and topics to write to.

    [connection]
    "bootstrap.servers" = "localhost:9092"

    [[source]]
    topics = ["quotes"]

    [[sink]]
    name = "dear"
    to = "dear-quotes"
    where = "price > 100"

What is in `[connection]`, and in `options` of a source or a sink, is given to the client library as it is:
TLS, SASL and all else that https://docs.confluent.io/platform/current/clients/librdkafka/html/md_CONFIGURATION.html
has. What exactness rests on cannot be set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from distributary.edge.mailbox import MailboxBounds
from distributary.errors import DistributaryError, InputError
from distributary.kafka_values.decoder import ValueFormat, value_faults
from distributary.model import Subscription
from distributary.toml_files import Names, Number, Text, Truth, read_toml, report, toml_table, validated

Options = Annotated[
    dict[str, str | int | float | bool],
    Field(description='a table of the client library\'s settings, such as "security.protocol" = "SSL"'),
]
PARTS = ("topic", "key", "partition", "type", "subject")
"""What the topic of an event may be made of."""
OURS = (
    "group.id",
    "group.instance.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "transactional.id",
    "enable.idempotence",
    "auto.offset.reset",
)
"""Settings of the client library that are decided here."""
MOST_EVENTS, MOST_BYTES = 100_000, 256 << 20
"""What waits for Kafka at most, unless said otherwise."""
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@toml_table
class KafkaSource:
    """Topics whose records are published as events."""

    topics: Names
    """Their names; one that begins with `^` is a regular expression."""
    group: Text = "distributary"
    """The consumer group: brokers that have the same one share the partitions."""
    topic: Text = "{topic}"
    """The topic of the event."""
    separator: Text | None = None
    """What stands between levels in names of Kafka's topics; `/` takes its place."""
    values: Literal["auto", "json", "xml", "any", "avro", "protobuf"] = "auto"
    """What a value is; what is none is set aside."""
    registry: Text | None = None
    """The address of the schema registry, for Avro and Protobuf."""
    schemas: Text | None = None
    """Or the directory of their schemas."""
    tombstones: Truth = False
    """Whether records without a value are events too."""
    begin: Literal["earliest", "latest"] = "earliest"
    """Where a group begins that has committed nothing."""
    options: Options = field(default_factory=dict)

    @property
    def value_format(self) -> ValueFormat | None:
        """How values are read that need a schema; None where they need none."""
        if self.values == "avro" or self.values == "protobuf":
            return ValueFormat(self.values, self.registry, self.schemas)
        return None


@toml_table
class KafkaSink:
    """A topic that is given what a subscription asks for."""

    name: Text
    to: Text
    """The topic of Kafka's."""
    broker: Text | None = None
    """The broker that writes; needed where several have the file."""
    key: Text = "topic"
    """The attribute that is the record's key, or the event's topic."""
    events: Number = MOST_EVENTS
    bytes: Number = MOST_BYTES
    topic: Text | None = None
    where: Text | None = None
    path: Text | None = None
    change: dict[str, float] | None = None
    options: Options = field(default_factory=dict)

    def subscription(self, subscriber: str) -> Subscription:
        """What it asks for; InputError when that is nothing that can be asked for."""
        return Subscription(
            "sink", subscriber, topic=self.topic, where=self.where, path=self.path, change=self.change
        )

    @property
    def bounds(self) -> MailboxBounds:
        """How much waits for Kafka at most."""
        return MailboxBounds(events=int(self.events), bytes=int(self.bytes))


@toml_table
class KafkaSettings:
    """The whole file."""

    connection: Options
    name: Text = "kafka"
    """The source of events that do not name their own: another for each Kafka."""
    quarantine: Text | None = None
    """The file for what is set aside; by default one in the broker's data."""
    source: list[KafkaSource] = field(default_factory=list)
    sink: list[KafkaSink] = field(default_factory=list)

    @field_validator("connection")
    @classmethod
    def _check_connection(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "bootstrap.servers" not in given and "metadata.broker.list" not in given:
            report(info, [("", 'has no "bootstrap.servers", such as "localhost:9092"')])
        report(info, [(name, "is decided here and cannot be set") for name in given if name in OURS])
        return given

    @field_validator("source")
    @classmethod
    def _check_sources(cls, given: list[KafkaSource], info: ValidationInfo) -> list[KafkaSource]:
        report(info, [fault for each in given for fault in _faults_of_source(each)])
        return given

    @field_validator("sink")
    @classmethod
    def _check_sinks(cls, given: list[KafkaSink], info: ValidationInfo) -> list[KafkaSink]:
        names = [each.name for each in given]
        doubled = sorted({name for name in names if names.count(name) > 1})
        report(info, [("name", f"{name!r} is the name of two sinks") for name in doubled])
        report(info, [fault for each in given for fault in _faults_of_sink(each)])
        return given


def _faults_of_source(source: KafkaSource) -> Iterator[tuple[str, str]]:
    if not source.topics:
        yield "topics", 'is empty; name at least one, such as ["quotes"]'
    for part in PLACEHOLDER.findall(source.topic):
        if part not in PARTS:
            yield "topic", f"has {{{part}}}; known are {', '.join(f'{{{each}}}' for each in PARTS)}"
    yield from value_faults(source.values, source.registry, source.schemas)
    yield from _faults_of_options(source.options)


def _faults_of_sink(sink: KafkaSink) -> Iterator[tuple[str, str]]:
    try:
        sink.subscription("kafka")
    except InputError as error:
        yield "", f"{sink.name!r}: {error}"
    yield from _faults_of_options(sink.options)


def _faults_of_options(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in options:
        if name in OURS:
            yield f"options.{name}", "is decided here and cannot be set"


def read_kafka_file(path: Path) -> KafkaSettings:
    """The settings of a TOML file; DistributaryError with everything that is wrong with it."""
    settings = validated(KafkaSettings, read_toml(path), str(path))
    if not settings.source and not settings.sink:
        raise DistributaryError(
            f"{path}: it has neither a [[source]] nor a [[sink]], so there is nothing to do"
        )
    return settings
