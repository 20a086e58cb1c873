"""Runs the Python snippets of a page, in order and in one namespace, given what the page takes for granted.

A page may speak of the reader's own events, files or session. `GIVEN` makes them: code that runs before the
first snippet, in an empty directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

NEED_SPARK = {"README.md", "connectors.md", "spark.md", "pipeline.md", "queries.md", "replay.md"}
"""Pages whose snippets take the session `spark`."""

EVENTS = """
import shutil
from pathlib import Path
from distributary import Event, Subscription
from distributary.files import events_to_table, subscriptions_to_table, write_records
from distributary.store import open_store
from pyspark.sql import SparkSession

spark = SparkSession.getActiveSession()
made = [Event(f"e{n}", "trades", {"time": n, "symbol": "OTE", "price": 8.4, "size": 100 * n, "at": 1000 * n})
        for n in range(5)]
asked = [Subscription("s1", "ann", topic="trades"), Subscription("s2", "ann", topic="busy")]
events = spark.createDataFrame(events_to_table(made))
table = events_to_table(made)
subscriptions = spark.createDataFrame(subscriptions_to_table(asked))
open_store("subscriptions-store").commit(asked)
shutil.copy(examples / "queries.toml", "queries.toml")
"""

PIPELINE = (
    EVENTS
    + """
open_store("subscriptions").commit(asked)
Path("queries.toml").write_text('''
[sources.trades]
topic = "trades"
time = "at"
schema = { size = "integer", at = "integer" }
[[queries.busy.operators]]
name = "large"
filter = { from = "trades", where = "size > 100" }
''')
Path("pipeline.toml").write_text('''
checkpoint = "checkpoint"
queries = "queries.toml"
[source]
format = "json"
path = "incoming"
schema = "id STRING, topic STRING, time BIGINT, symbol STRING, price DOUBLE, size BIGINT, at BIGINT"
[events]
order = "time"
[subscriptions]
store = "subscriptions"
[sink]
path = "deliveries"
[archive]
path = "archive"
[metrics]
path = "metrics"
[trigger]
available_now = true
''')
Path("incoming").mkdir()
with open("incoming/some.json", "w") as stream:
    write_records(stream, [event.to_record() for event in made])
from distributary.spark import load_pipeline, start
start(spark, load_pipeline("pipeline.toml")).awaitTermination()
subscriptions = asked
"""
)

GIVEN: dict[str, str] = {
    "README.md": EVENTS + "stream = spark.readStream.schema(events.schema).parquet(str(examples))\n",
    "attributes.md": """
with open("stocks.toml", "w") as stream:
    stream.write('[attributes.price]\\ntype = "float"\\nminimum = 0.0\\nmaximum = 20.0\\nprecision = 0.01\\n'
                 '[attributes.symbol]\\ntype = "string"\\n')
""",
    "connectors.md": """
from pyspark.sql import SparkSession
from spark.connectors.brokers import served_broker

spark = SparkSession.getActiveSession()
served = scope.enter_context(served_broker(directory))
mqtt, network, logs = {"port": str(served.mqtt)}, {"at": served.web}, str(directory)
""",
    "feeds.md": """
def fetch(feed, now):
    return "<rss><channel><item><title>Rain</title></item></channel></rss>"
""",
    "pipeline.md": PIPELINE,
    "replay.md": PIPELINE,
    "plan.md": """
tolls = [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]
latency = bandwidth = tolls
import json
from pathlib import Path
import pyarrow as pa
from pyarrow import parquet
tables = {
    "topics": {"topic": ["quotes/NYSE/OTE"], "events": [10], "matches": [4]},
    "subscriptions": {"subscription_id": ["s1"], "subscriber": ["ann"], "matches": [4]},
}
for name, columns in tables.items():
    Path(f"metrics/{name}/batch=0").mkdir(parents=True)
    parquet.write_table(pa.table(columns), f"metrics/{name}/batch=0/part-0.parquet")
Path("metrics/batches").mkdir()
times = {"started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T00:00:05+00:00"}
Path("metrics/batches/0.json").write_text(json.dumps({"batch": 0, "events": 10, **times}))
""",
    "queries.md": EVENTS + "frame, events = events, made\n",
    "query-network.md": """
from distributary import Event
from distributary.flow import QueryBuilder, Source
trades = Source("trades", {"symbol": "text", "size": "integer", "at": "integer"}, time="at", topic="trades")
build = QueryBuilder("busy")
bids = build.filter("bids", trades, where="size >= 100")
build.count("per_minute", build.union("large", bids, build.filter("asks", trades, where="size < 0")),
            window="1 minute")
busy, event = build.query(), Event("e1", "trades", {"symbol": "OTE", "size": 100, "at": 7})
latency, bandwidth = (lambda one, other: 1.0), {1: 1e6, 2: 1e6, 3: 1e6}
""",
    "spark.md": EVENTS
    + """
events.write.parquet("events")
schema = events.schema
Path("incoming").mkdir()
with open("subscriptions.jsonl", "w") as stream:
    write_records(stream, [subscription.to_record() for subscription in asked])
""",
}


def snippets(page: Path) -> list[str]:
    """The Python snippets of a page, each after as many empty lines as stand before it."""
    text = page.read_text()
    return ["\n" * text.count("\n", 0, found.start(1)) + found[1] for found in FENCE.finditer(text)]


def given_alike(pages: Iterable[Path]) -> list[list[Path]]:
    """The pages by what they are given: making that may take long, and is done once for each."""
    groups: dict[str | None, list[Path]] = {}
    for page in pages:
        groups.setdefault(GIVEN.get(page.name, page.name), []).append(page)
    return list(groups.values())


def run_snippets(pages: Sequence[Path], directory: Path) -> dict[str, Any]:
    """Run those of pages that are given the same, each page for itself; an error's line is the page's.

    Gives the names that those of the last page leave.
    """
    examples = Path(__file__).parents[2] / "examples"
    names: dict[str, Any] = {"directory": directory, "examples": examples, "__name__": "snippets"}
    with ExitStack() as scope, _entered(directory) if pages[0].name in NEED_SPARK else nullcontext():
        names["scope"] = scope  # for what must end when the streams of a page have
        exec(compile(GIVEN.get(pages[0].name, ""), f"given for {pages[0].name}", "exec"), names)
        for page in pages:
            own = dict(names)
            for snippet in snippets(page):
                exec(compile(snippet, str(page), "exec"), own)
    return own


@contextmanager
def _entered(directory: Path) -> Iterator[None]:
    """Have the running session take relative paths from a directory, as a new one started there would.

    Spark's files ask the session's file system, and the checkpoints of streams the Java process, which knows
    nothing of Python's working directory. Streams that a page leaves running are stopped.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    java: Any = session._jvm
    files = java.org.apache.hadoop.fs
    place = files.FileSystem.get(session._jsc.hadoopConfiguration())
    process, before = java.java.lang.System, place.getWorkingDirectory()
    home = process.setProperty("user.dir", str(directory))
    place.setWorkingDirectory(files.Path(str(directory)))
    try:
        yield
    finally:
        for stream in session.streams.active:
            stream.stop()
        place.setWorkingDirectory(before)
        process.setProperty("user.dir", home)
