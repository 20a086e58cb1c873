"""The format `distributary` on Spark: from a network and into it, each event once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from distributary import Event
from distributary.client import connect, connect_plain
from distributary.errors import InputError
from distributary.spark.connectors import network_events, register
from distributary.spark.connectors.network.event import event_of_row
from spark.connectors.brokers import PATIENCE, ServedBroker, served_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with served_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


async def _taken(at: str, topic: str, count: int, session: str) -> list[Event]:
    found: list[Event] = []
    async with connect(at, name=session) as client, client.batches(id="s", topic=topic) as batches:
        if count:
            async with asyncio.timeout(PATIENCE):
                async for taken in batches:
                    found += taken.events
                    if len(found) >= count:
                        break
    return found


def taken(broker: ServedBroker, topic: str, count: int) -> list[Event]:
    """Events of a lasting session at the broker; with a count of 0 it begins."""
    return asyncio.run(_taken(broker.web, topic, count, f"reader of {topic}"))


@pytest.mark.parametrize("kind", ["web", pytest.param("node", marks=pytest.mark.chaos)])
def test_events_go_through_a_stream_and_back_each_once_though_a_batch_is_done_again(
    spark: SparkSession, broker: ServedBroker, tmp_path: Path, kind: str
) -> None:
    register(spark)
    at = broker.web if kind == "web" else broker.node
    options = {"at": at, "topic": f"in/{kind}", "where": "price > 1", "log": str(tmp_path / "log")}
    taken(broker, f"out/{kind}", 0)

    def run() -> None:
        stream = spark.readStream.format("distributary").options(**options, quiet="1").load()
        events = network_events(stream, "price DOUBLE")
        # With their old source they would be the events that the network has had already.
        made = events.selectExpr(
            "id", f"'spark {kind}' AS source", f"'out/{kind}' AS topic", "price * 2 AS x"
        )
        writer = made.writeStream.format("distributary").option("at", at)
        place = str(tmp_path / "checkpoint")
        query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE)

    run()
    with connect_plain(at) as client:
        client.publish(
            *[Event(f"e{n}", f"in/{kind}", {"price": n, "source": f"ann {kind}"}) for n in range(10)]
        )
    run()
    last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # as if the driver had been killed before it noted that the batch is done
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    run()
    with connect_plain(at) as client:
        client.publish(Event("end", f"out/{kind}", {"source": f"spark {kind}"}))
    found = taken(broker, f"out/{kind}", 9)
    assert [event.id for event in found] == [*(f"e{n}" for n in range(2, 10)), "end"]
    assert [event.attributes["x"] for event in found[:-1]] == [2.0 * n for n in range(2, 10)]


def test_rows_of_a_batch_are_events_and_what_is_none_is_told(
    spark: SparkSession, broker: ServedBroker
) -> None:
    register(spark)
    taken(broker, "rows", 0)
    rows = spark.sql(
        "SELECT id, 'rows' AS topic, named_struct('speed', id * 0.5) AS wind, DATE '2026-01-02' AS day, "
        "array(1, 2) AS list, '<a/>' AS document FROM range(3)"
    )
    writer = rows.write.format("distributary").mode("append").option("at", broker.web)
    writer.option("source", "batch").save()
    found = taken(broker, "rows", 3)
    assert sorted(event.id for event in found) == ["0", "1", "2"]
    assert {(event.source, event.document) for event in found} == {("batch", "<a/>")}
    assert {event.attributes["wind.speed"] for event in found} == {0.0, 0.5, 1.0}
    assert {(event.attributes["day"], tuple(event.attributes["list"])) for event in found} == {
        ("2026-01-02", (1, 2))
    }

    def refused(query: str, told: str) -> None:
        with pytest.raises(PySparkException, match=told):
            spark.sql(query).write.format("distributary").mode("append").option("at", broker.web).save()

    refused("SELECT 'x' AS topic", 'needs a column "id"')
    refused("SELECT 'a' AS id, 1 AS topic", 'the column "topic" must be a string')
    refused("SELECT 'a' AS id, '' AS topic", "a row is no event: topic")
    refused("SELECT string(null) AS id", "a row is no event: id: is missing")
    refused("SELECT 'a' AS id, '<a' AS document", "document")


def test_values_that_json_has_not_become_texts_and_numbers_stay_numbers() -> None:
    row = Row(id=1, bytes=b"\x01", map={"a": Decimal("2.0")}, price=Decimal("8.40"), nothing=None)
    assert event_of_row(row, None).attributes == {"bytes": "AQ==", "map.a": 2, "price": 8.4}
    with pytest.raises(InputError, match="more digits than a double"):
        event_of_row(Row(id=1, price=Decimal("0.1234567890123456789")), None)
