"""A broker between topics of a real Kafka: what is taken, delivered, written and set aside."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from distributary.client import connect
from distributary.edge.kafka.settings import KafkaSettings
from distributary.edge.payloads import payload_of
from distributary.edge.serve import ServedBroker, ServeSettings, described
from distributary.model import Event
from distributary.toml_files import parse_toml, validated
from kafka_server import KafkaServer
from registry_server import registry_server

PATIENCE = 60.0


def settings_of(kafka: KafkaServer, text: str) -> KafkaSettings:
    """The settings of a file, of which this is the part beside the connection."""
    connection = f'[connection]\n"bootstrap.servers" = "{kafka.address}"\n'
    return validated(KafkaSettings, parse_toml(connection + text, "kafka.toml"), "kafka.toml")


@asynccontextmanager
async def served(settings: KafkaSettings, **more: object) -> AsyncIterator[ServedBroker]:
    """A broker with these topics."""
    broker = ServedBroker(ServeSettings(mqtt=0, web=0, kafka=settings, **more), print)  # type: ignore[arg-type]
    await broker.start()
    try:
        yield broker
    finally:
        await broker.leave()


def committed_offsets(kafka: KafkaServer, group: str, topic: str) -> dict[int, int]:
    """Up to where a group has read, by partition."""
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number) for number in range(2)])
    [answer] = kafka.admin.list_consumer_group_offsets([asked]).values()
    return {each.partition: each.offset for each in answer.result(PATIENCE).topic_partitions}


def test_records_reach_clients_that_asked_for_them_and_what_is_malformed_stops_nothing(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    settings = settings_of(
        kafka, f'[[source]]\ntopics = ["{topic}"]\ngroup = "{topic}"\ntopic = "quotes/{{key}}"'
    )

    async def received() -> list[Event]:
        async with (
            served(settings, data=tmp_path) as broker,
            connect(f"ws://{broker.web_endpoint}", name="ann") as ann,
            ann.subscribed(topic="quotes/OTE", where="price > 8") as events,
        ):
            assert f"  Kafka takes {topic} from {kafka.address}, in group {topic!r}" in described(broker)
            kafka.send(topic, b'{"price": 9}', b'{"price": 7}', None, b'{"price":', b"<a/>", key=b"OTE")
            kafka.send(topic, b'{"price": 10}', key=b"OTHER")
            cloud = {"ce_specversion": "1.0", "ce_id": "e1", "ce_source": "/bourse", "ce_type": "quote"}
            kafka.send(topic, b'{"price": 11}', key=b"OTE", headers=list(cloud.items()))
            async with asyncio.timeout(PATIENCE):
                return [await anext(events), await anext(events)]

    first, second = asyncio.run(received())
    assert (first.topic, first.attributes["price"], first.source) == ("quotes/OTE", 9, "kafka")
    place = (
        first.attributes["kafka.topic"],
        first.attributes["kafka.partition"],
        first.attributes["kafka.offset"],
    )
    assert first.id == "{}-{}-{}".format(*place)
    assert (second.key.source, second.id, second.attributes["price"]) == ("/bourse", "e1", 11)
    assert sum(end for end in committed_offsets(kafka, topic, topic).values() if end > 0) == 7
    aside = [json.loads(line) for line in (tmp_path / "kafka-quarantine.jsonl").read_text().splitlines()]
    partition = first.attributes["kafka.partition"]
    assert [each["place"] for each in aside] == [f"{topic}[{partition}]@{number}" for number in (2, 3)]
    assert "tombstone" in aside[0]["reason"]


def test_deliveries_are_written_once_also_when_the_broker_comes_back(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = kafka.topic()
    settings = settings_of(
        kafka, f'[[sink]]\nname = "dear"\nto = "{topic}"\nwhere = "price > 8"\nkey = "stock"'
    )

    async def publish(numbers: range) -> None:
        async with (
            served(settings, data=tmp_path) as broker,
            connect(f"ws://{broker.web_endpoint}", name="seller") as seller,
        ):
            assert f"  Kafka writes {topic} at {kafka.address}" in described(broker)
            assert broker.kafka is not None
            while not broker.kafka.outlets[0].ready:
                await asyncio.sleep(0.01)
            await seller.publish(
                *(Event(f"e{each}", "quotes", {"price": each, "stock": "OTE"}) for each in numbers)
            )
            await asyncio.to_thread(kafka.committed, topic, numbers.stop - 9)

    for numbers in (range(5, 12), range(12, 15)):
        asyncio.run(publish(numbers))
    records = kafka.committed(topic, 6)
    assert [dict(each.headers() or ())["ce_id"] for each in records] == [
        b"e%d" % each for each in range(9, 15)
    ]
    assert {each.key() for each in records} == {b"OTE"}
    assert json.loads(records[0].value() or b"")["price"] == 9


def test_avro_reaches_clients_as_json_once_the_registry_answers(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.topic()
    schema = '{"type": "record", "name": "Q", "fields": [{"name": "price", "type": "double"}]}'
    with registry_server() as registry:
        head = struct.pack(">bI", 0, registry.register("quotes", {"schema": schema}))
        registry.failures = 6  # more than it is asked at a time
        source = f'topics = ["{topic}"]\ngroup = "{topic}"\nvalues = "avro"\nregistry = "{registry.address}"'
        settings = settings_of(kafka, f"[[source]]\n{source}")

        async def received() -> tuple[Event, Event]:
            async with (
                served(settings, data=tmp_path) as broker,
                connect(f"ws://{broker.web_endpoint}", name="ann") as ann,
                ann.subscribed(where="price > 8") as events,
            ):
                kafka.send(topic, *(head + struct.pack("<d", price) for price in (7.5, 8.5)), b"{}", head)
                cloud = {"ce_specversion": "1.0", "ce_id": "e1", "ce_source": "/bourse", "ce_type": "quote"}
                kafka.send(topic, head + struct.pack("<d", 9.5), headers=list(cloud.items()))
                async with asyncio.timeout(PATIENCE):
                    return await anext(events), await anext(events)

        first, second = asyncio.run(received())
    assert (first.id, first.attributes["price"], payload_of(first)) == (f"{topic}-0-1", 8.5, b'{"price":8.5}')
    assert (second.id, second.source, second.attributes["price"]) == ("e1", "/bourse", 9.5)
    aside = [json.loads(line) for line in (tmp_path / "kafka-quarantine.jsonl").read_text().splitlines()]
    assert [each["place"] for each in aside] == [f"{topic}[0]@2", f"{topic}[0]@3"]
    assert "magic byte" in aside[0]["reason"]
    assert "Avro schema" in aside[1]["reason"]
