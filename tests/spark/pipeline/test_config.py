"""The file of a pipeline: what it means, and that each wrong key is told with what would be right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributary.cli import run
from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.spark.pipeline.config import (
    PipelineEvents,
    PipelineSource,
    PipelineSubscriptions,
    Sink,
    Trigger,
    load_pipeline,
    parse_pipeline,
    schema_columns,
)

EXAMPLE_FILE = Path(__file__).parents[3] / "examples" / "pipeline.toml"

LEAST = {
    "": 'checkpoint = "checkpoint"',
    "source": 'format = "json"\npath = "in"\nschema = "id STRING, topic STRING, price DOUBLE"',
    "subscriptions": 'store = "subscriptions"',
    "sink": 'path = "out"',
}


def text_of(**changed: str | None) -> str:
    """The least file there can be, with some of its tables changed, added or (None) left out."""
    tables: dict[str, str | None] = {**LEAST, **changed}
    tables[""] = tables.pop("top", tables[""])
    ordered = {"": tables.pop(""), **tables}
    return "".join(
        (f"[{name}]\n" if name else "") + f"{body}\n" for name, body in ordered.items() if body is not None
    )


def wrong(**changed: str | None) -> list[str]:
    """What is told about a file, line by line, without the first line that names it."""
    with pytest.raises(DistributaryError) as caught:
        parse_pipeline(text_of(**changed), "pipeline.toml")
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("pipeline.toml: ")
    return [line.strip() for line in rest]


def test_the_least_file_has_defaults_for_the_rest(tmp_path: Path) -> None:
    pipeline = parse_pipeline(text_of(), str(tmp_path / "quotes.toml"))
    assert pipeline.name == "quotes"
    assert pipeline.checkpoint == str(tmp_path / "checkpoint")
    assert pipeline.source == PipelineSource(
        "json", str(tmp_path / "in"), {}, "id STRING, topic STRING, price DOUBLE", None
    )
    assert pipeline.events == PipelineEvents("id", "topic", "document", None)
    assert pipeline.subscriptions == PipelineSubscriptions(str(tmp_path / "subscriptions"), "auto")
    assert pipeline.sink == Sink("parquet", str(tmp_path / "out"))
    assert (pipeline.archive, pipeline.metrics) == (None, None)
    assert pipeline.quarantine == str(tmp_path / "checkpoint" / "quarantine")
    assert pipeline.trigger == Trigger("1 second")
    assert pipeline.commits == str(tmp_path / "checkpoint" / "batches")


def test_every_key_arrives_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "schema.ddl").write_text("key STRING, kind STRING, text STRING, at TIMESTAMP\n")
    text = """
        name = "all"
        checkpoint = "/var/checkpoint"
        [source]
        format = "Kafka"
        options = { subscribe = "events", "kafka.bootstrap.servers" = "h:9092", maxOffsetsPerTrigger = 1000 }
        schema = "schema.ddl"
        parse = "json"
        [events]
        id = "key"
        topic = "kind"
        document = "text"
        order = "at"
        [subscriptions]
        store = "postgresql+psycopg://h/d"
        strategy = "rendezvous"
        workspace = "work"
        [sink]
        format = "kafka"
        topic = "to-{subscriber}"
        each = true
        columns = ["kind", "at"]
        [sink.options]
        kafka.bootstrap.servers = "h:9092"
        kafka.enable.idempotence = true
        [archive]
        path = "s3a://bucket/archive/"
        [quarantine]
        path = "bad"
        [metrics]
        path = "../metrics"
        [trigger]
        available_now = true
        [spark.conf]
        spark.driver.memory = "4g"
        "spark.sql.shuffle.partitions" = 8
    """
    pipeline = parse_pipeline(text, str(tmp_path / "p.toml"))
    assert pipeline.name == "all"
    assert pipeline.source.format == "kafka"
    assert pipeline.source.options == {
        "subscribe": "events",
        "kafka.bootstrap.servers": "h:9092",
        "maxOffsetsPerTrigger": "1000",
    }
    assert pipeline.source.schema == "key STRING, kind STRING, text STRING, at TIMESTAMP"
    assert pipeline.events == PipelineEvents("key", "kind", "text", "at")
    assert pipeline.subscriptions == PipelineSubscriptions(
        "postgresql+psycopg://h/d", "rendezvous", str(tmp_path / "work")
    )
    assert pipeline.sink == Sink(
        "kafka",
        None,
        {"kafka.bootstrap.servers": "h:9092", "kafka.enable.idempotence": "true"},
        ("kind", "at"),
        True,
        "to-{subscriber}",
    )
    assert pipeline.archive == "s3a://bucket/archive"
    assert pipeline.quarantine == str(tmp_path / "bad")
    assert pipeline.metrics == str(tmp_path.parent / "metrics")
    assert pipeline.commits == f"{tmp_path.parent}/metrics/batches"
    assert pipeline.trigger == Trigger(None, True)
    assert pipeline.spark == {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "8"}


def test_a_schema_may_be_the_json_that_spark_writes(tmp_path: Path) -> None:
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("id", "topic")]
    (tmp_path / "schema.json").write_text(json.dumps({"type": "struct", "fields": fields}))
    text = text_of(source='format = "json"\npath = "in"\nschema = "schema.json"')
    schema = parse_pipeline(text, str(tmp_path / "p.toml")).source.schema
    assert schema is not None
    assert schema_columns(schema) == ["id", "topic"]


SOURCE = LEAST["source"]
RAW = 'schema = "id STRING"\nformat = "kafka"'
KAFKA = 'format = "kafka"\noptions = { "kafka.bootstrap.servers" = "h" }'

WRONG: list[tuple[dict[str, str | None], str]] = [
    # misspelt and unknown
    (
        {"top": 'checkpiont = "c"\ncheckpoint = "d"'},
        "checkpiont: there is no such key; did you mean checkpoint?",
    ),
    ({"sinks": ""}, "sinks: there is no such key; did you mean sink?"),
    ({"sink": 'path = "out"\nfromat = "csv"'}, "[sink] fromat: there is no such key; did you mean format?"),
    (
        {"archive": 'path = "a"\nzzz = 1'},
        "[archive] zzz: there is no such key; known are path",
    ),
    # missing
    ({"top": ""}, 'checkpoint: is missing; it must be a string such as "checkpoint"'),
    ({"source": None}, "[source]: the table is missing"),
    ({"sink": None}, "[sink]: the table is missing"),
    ({"subscriptions": None}, "[subscriptions]: the table is missing"),
    ({"subscriptions": ""}, '[subscriptions] store: is missing; it must be a string such as "subscriptions"'),
    ({"archive": ""}, '[archive] path: is missing; it must be a string such as "directory"'),
    ({"sink": ""}, '[sink] path: is missing; the format "parquet" writes to a directory'),
    (
        {"source": 'format = "json"\nschema = "id STRING"'},
        '[source] path: is missing; the format "json" reads a directory',
    ),
    (
        {"source": 'format = "csv"\npath = "in"'},
        '[source] schema: is missing; the format "csv" needs one such as "id STRING, topic STRING"',
    ),
    (
        {"source": 'format = "kafka"\nparse = "json"'},
        '[source] schema: is missing; parse = "json" needs one such as "id STRING, topic STRING"',
    ),
    ({"source": RAW}, '[source] parse: is missing; the format "kafka" gives raw values: parse = "json"'),
    ({"sink": KAFKA}, '[sink] topic: is missing; Kafka needs one such as "deliveries"'),
    (
        {"sink": 'format = "kafka"\ntopic = "t"'},
        '[sink] options: lacks kafka.bootstrap.servers, such as "localhost:9092"',
    ),
    # of the wrong type
    (
        {"top": "checkpoint = 5"},
        'checkpoint: is 5 (a whole number); it must be a string such as "checkpoint"',
    ),
    ({"top": 'checkpoint = ""'}, 'checkpoint: is ""; it must be a string such as "checkpoint"'),
    ({"top": 'checkpoint = "c"\narchive = "a"'}, '[archive]: is "a"; it must be a table'),
    (
        {"sink": 'path = "out"\ncolumns = "topic"'},
        '[sink] columns: is "topic"; it must be a list of strings such as ["topic", "price"]',
    ),
    (
        {"sink": 'path = "out"\neach = "ann"'},
        '[sink] each: is "ann"; it must be true, false or a list of strings such as ["ann", "bob"]',
    ),
    (
        {"sink": 'path = "out"\neach = [1]'},
        '[sink] each: is [1] (a list); it must be true, false or a list of strings such as ["ann", "bob"]',
    ),
    (
        {"source": f"{SOURCE}\noptions = 1"},
        '[source] options: is 1 (a whole number); it must be a table such as { name = "value" }',
    ),
    (
        {"source": f"{SOURCE}\noptions = {{ a = [1] }}"},
        "[source] options.a: is [1] (a list); it must be a string or a number",
    ),
    ({"trigger": 'available_now = "yes"'}, '[trigger] available_now: is "yes"; it must be true or false'),
    # of the right type, and wrong
    (
        {"subscriptions": 'store = "s"\nstrategy = "hash"'},
        '[subscriptions] strategy: is "hash"; it must be "auto" or "index" or "rendezvous"',
    ),
    (
        {"trigger": 'every = "often"'},
        '[trigger] every: is "often"; it must be an interval such as "500 milliseconds"',
    ),
    (
        {"trigger": 'every = "1 second"\navailable_now = true'},
        "[trigger] every: contradicts available_now = true; leave one of them out",
    ),
    (
        {"source": 'format = "json"\npath = "in"\nschema = "no.ddl"'},
        '[source] schema: is "no.ddl": no file that can be read, nor a schema such as "id STRING"',
    ),
    (
        {"source": 'format = "json"\npath = "in"\nschema = "id STRING, topic"'},
        "[source] schema: has 'topic' where a name and a type should be, such as 'id STRING'",
    ),
    (
        {"source": 'format = "json"\npath = "in"\nschema = "id STRING, _unreadable STRING"'},
        "[source] schema: has a column _unreadable, a name that is taken",
    ),
    (
        {"source": f'{SOURCE}\nparse = "json"'},
        '[source] parse: is for raw values; the format "json" has columns already',
    ),
    (
        {"source": f'{SOURCE}\noptions = {{ mode = "DROPMALFORMED" }}'},
        "[source] options.mode: cannot be set: what cannot be read goes to the quarantine",
    ),
    (
        {"events": 'topic = "tpic"'},
        '[events] topic: is "tpic"; [source] schema has no such column: did you mean topic?',
    ),
    (
        {"events": 'order = "at"'},
        '[events] order: is "at"; [source] schema has no such column: known are id, topic, price',
    ),
    (
        {"source": 'format = "json"\npath = "in"\nschema = "key STRING"'},
        '[events] id: is "id"; [source] schema has no such column: known are key',
    ),
    (
        {"sink": 'path = "out"\ncolumns = ["prize"]'},
        '[sink] columns: "prize" is no column of [source] schema: did you mean price?',
    ),
    (
        {"sink": 'path = "out"\ncolumns = ["price", "price"]'},
        '[sink] columns: names "price" twice',
    ),
    (
        {"source": SOURCE.replace("price", "batch"), "sink": 'path = "out"\ncolumns = ["batch"]'},
        '[sink] columns: "batch" is a column of every delivery already',
    ),
    (
        {"source": SOURCE.replace("price", "Batch"), "archive": 'path = "a"'},
        "[archive] path: cannot be: [source] schema has a column batch, a name that the archive needs",
    ),
    ({"sink": 'path = "out"\ntopic = "t"'}, '[sink] topic: is for Kafka; the format is "parquet"'),
    (
        {"sink": 'path = "out"\nexactly_once = true'},
        '[sink] exactly_once: is for Kafka; the format is "parquet"',
    ),
    (
        {"sink": f'{KAFKA}\ntopic = "t-{{subscriber}}"\neach = true\nexactly_once = true'},
        "[sink] exactly_once: is for one topic, so it does not go together with each",
    ),
    (
        {"sink": f'{KAFKA}\ntopic = "t"\neach = true'},
        '[sink] topic: "t" has no {subscriber} in it, but each is set; such as "deliveries-{subscriber}"',
    ),
    (
        {"sink": f'{KAFKA}\ntopic = "t-{{subscriber}}"'},
        '[sink] topic: "t-{subscriber}" has {subscriber} in it, but each is not set; such as "deliveries"',
    ),
    (
        {"sink": f'{KAFKA}\ntopic = "t-{{subscriber}}"\neach = ["ann"]'},
        "[sink] each: is a list; with Kafka it must be true or false",
    ),
    ({"sink": 'format = "jdbc"\neach = true'}, '[sink] each: is for files and Kafka; the format is "jdbc"'),
]


@pytest.mark.parametrize(("changed", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_is_told_with_what_would_be_right(changed: dict[str, str | None], told: str) -> None:
    assert wrong(**changed) == [told]


@pytest.mark.parametrize("other", ["in", "in/deliveries", "subscriptions", "checkpoint/x", "."])
def test_no_place_serves_two_purposes(other: str) -> None:
    assert any("overlaps with" in line for line in wrong(sink=f'path = "{other}"'))


def test_all_that_is_wrong_is_told_at_once() -> None:
    told = wrong(top="", sink="zzz = 1", trigger="every = 5")
    assert [line.split(":")[0] for line in told] == [
        "checkpoint",
        "[sink] zzz",
        "[sink] path",
        "[trigger] every",
    ]


def test_every_faulty_setting_is_told() -> None:
    told = wrong(source=f"{SOURCE}\noptions = {{ a = [1], b.c = [2], d = 3 }}")
    assert [line.partition(":")[0] for line in told] == ["[source] options.a", "[source] options.b.c"]


def test_a_file_that_is_no_toml_is_told() -> None:
    with pytest.raises(DistributaryError, match=r"p\.toml: not TOML: .*line 1"):
        parse_pipeline("checkpoint\nname", "p.toml")


@pytest.mark.parametrize("made", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, made: bytes | None) -> None:
    if made is not None:
        (tmp_path / "p.toml").write_bytes(made)
    with pytest.raises(DistributaryError, match=r"cannot read .*p\.toml"):
        load_pipeline(tmp_path / "p.toml")


def test_the_example_and_the_one_in_the_help_are_right() -> None:
    assert load_pipeline(EXAMPLE_FILE).events.order == "at"
    in_help = (run.__doc__ or "").partition("has all keys:\n")[2]
    assert parse_pipeline(in_help).events.order == "at"


def test_check_validates_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text_of())
    assert main(["run", str(file), "--check"]) == 0
    assert "is right" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [file]
    file.write_text(text_of(sink=""))
    assert main(["run", str(file), "--check"]) == 1
    assert "[sink] path" in capsys.readouterr().err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out.partition("examples:")[2]
    assert "distributary run" in shown
    assert "[subscriptions]" in shown
