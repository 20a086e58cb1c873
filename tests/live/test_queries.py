"""Stream queries in a live network: the interpreter's answers, wherever operators run and whoever is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.client import RefusedError, connect
from distributary.errors import DistributaryError
from distributary.flow import Catalogue, QueryBuilder, Source, answer
from distributary.flow.language import function
from distributary.live.broker import LiveBroker
from distributary.live.local_network import LocalNetwork
from distributary.model import Event
from live.loops import alone, until
from live.query_network import Askers, due, query_network, workload
from live.test_processes import command, lines_of, run, stop

TRADES = Source(
    "trades", {"symbol": "text", "size": "integer", "at": "integer"}, time="at", topic="trades", lateness=50
)


@pytest.fixture(autouse=True)
def _functions_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker of a test permits holds for that test only."""
    monkeypatch.setattr(function, "_permitted", None)


def trade(number: int, size: int = 9, **more: object) -> Event:
    return Event(f"t{number}", "trades", {"symbol": "AB"[number % 2], "size": size, "at": number, **more})


def large(name: str = "busy") -> QueryBuilder:
    build = QueryBuilder(name)
    build.filter("large", "trades", where="size > 5")
    return build


@alone
async def test_clients_at_several_brokers_get_the_interpreter_s_answers_while_operators_move() -> None:
    catalogue, events = workload(queries=6, feeds=3, events=240, seed=5)
    async with query_network(4) as brokers, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(broker.endpoint)) for broker in brokers]
        askers = Askers()
        await askers.ask(clients[1:], catalogue)
        for number, event in enumerate(events):
            await clients[number % 4].publish(event)
            if number % 20 == 0:
                move_one(brokers, number)
        await askers.check(due(catalogue, events))
        assert sum(broker.broker.reconfiguration.moves for broker in brokers) > 3  # type: ignore[union-attr]
        await until(lambda: not any(broker.place["operators"] for broker in brokers))


def move_one(brokers: list[LiveBroker], number: int) -> None:
    """Move some operator to some broker."""
    hosts = [(broker, name) for broker in brokers for name in broker.place["operators"]]
    host, operator = hosts[number % len(hosts)]
    to = brokers[(number // 20) % len(brokers)].address
    host._runner.call(lambda: host.broker.move(operator, to))  # type: ignore[union-attr]


@alone
async def test_operators_move_by_themselves_to_where_they_cost_less() -> None:
    build = large()
    build.count("per", "large", window="20 milliseconds")
    async with query_network(3, goal="bandwidth", period=1.0, probing=1.0) as brokers:  # noqa: SIM117
        async with connect(brokers[0].endpoint) as seller, connect(brokers[2].endpoint) as asker:
            await seller.register(TRADES)
            async with asker.query(build.query()) as results:
                assert brokers[2].place["operators"] == ["busy.large", "busy.per"]
                number, published = 0, []
                while "busy.per" in brokers[2].place["operators"]:
                    published.append(trade(number))
                    await seller.publish(published[-1])
                    number += 1
                    await asyncio.sleep(0.005)
                published += [trade(number + 1), trade(number + 1_000)]
                await seller.publish(*published[-2:])
                expected = answer(Catalogue([TRADES], [build.query()]), published).streams["busy.per"]
                got = [(await anext(results)).item for _ in range(len(expected) - 1)]
                assert [item.attributes for item in got] == [each.attributes for each in expected[:-1]]


@alone
async def test_a_subscription_to_a_stream_is_given_its_items_as_events() -> None:
    async with query_network(3) as brokers, connect(brokers[0].endpoint) as seller:  # noqa: SIM117
        async with connect(brokers[1].endpoint) as asker, connect(brokers[2].endpoint, name="ann") as ann:
            await asker.register(TRADES)
            async with asker.query(large().query()):
                async with ann.subscribed(topic="busy/large", where="symbol = 'A'") as events:
                    await seller.publish(*(trade(number, size=number) for number in range(12)))
                    got = [await anext(events) for _ in range(3)]
                assert [(event.id, event.topic) for event in got] == [
                    (f"t{number}", "busy/large") for number in (6, 8, 10)
                ]


@alone
async def test_what_is_refused_is_told_with_the_reason() -> None:
    async with query_network(2) as brokers, connect(brokers[1].endpoint) as client:
        with pytest.raises(RefusedError, match="no source takes event 't1'"):
            await client.publish(trade(1))
        with pytest.raises(RefusedError, match="there is no stream 'trades'"):
            async with client.query(large().query()):
                pass
        await client.register(TRADES)
        await client.register(TRADES)
        other = Source("trades", {"at": "integer"}, time="at", topic="trades")
        with pytest.raises(RefusedError, match="there is another source 'trades', with other fields"):
            await client.register(other)
        async with client.query(large().query()) as results, connect(brokers[0].endpoint) as second:
            with pytest.raises(RefusedError, match="there is a query of this name already"):
                async with second.query(large().query()):
                    pass
            late, misfit = trade(1, at=10), trade(3, size="many")  # type: ignore[arg-type]
            with pytest.raises(RefusedError) as raised:
                await second.publish(trade(2, at=100), late, misfit, trade(4, at=60))
            reasons = {event.id: reason for event, reason in raised.value.refused}
            assert reasons.keys() == {"t1", "t3"}
            assert "10 is late" in reasons["t1"]
            assert "size" in reasons["t3"]
            assert [(await anext(results)).item.id for _ in range(2)] == ["t2", "t4"]
        async with client.query(large().query()):
            pass
    async with LiveBroker("distributary", "tree", name="hall") as hall, connect(hall.endpoint) as client:
        with pytest.raises(RefusedError, match="this network runs 'tree', which has no stream queries"):
            await client.register(TRADES)


@alone
async def test_an_event_that_is_published_again_counts_once() -> None:
    async with query_network(2) as brokers, connect(brokers[1].endpoint) as client:
        await client.register(TRADES)
        async with client.query(large().query()) as results, connect(brokers[0].endpoint) as other:
            await client.publish(trade(1))
            await other.publish(trade(1), trade(2))
            assert [(await anext(results)).item.id for _ in range(2)] == ["t1", "t2"]


@alone
async def test_queries_over_the_wire_call_only_functions_that_were_named(tmp_path: Path) -> None:
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    (tmp_path / "fine_module.py").write_text(
        "def twice(item): return [{'double': 2 * item.attributes['size']}]"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        async with query_network(2, functions=["fine_module:twice"]) as brokers:  # noqa: SIM117
            async with connect(brokers[1].endpoint) as client:
                await client.register(TRADES)
                for use in ("evil_module:run", "fine_module:other", "os:system"):
                    build = QueryBuilder("bad")
                    build.function("f", "trades", use=use, gives={"double": "integer"})
                    with pytest.raises(
                        RefusedError, match="is not permitted here; those that are: fine_module:t"
                    ):
                        async with client.query(build.query()):
                            pass
                assert "evil_module" not in sys.modules
                build = QueryBuilder("good")
                build.function("f", "trades", use="fine_module:twice", gives={"double": "integer"})
                async with client.query(build.query()) as results:
                    await client.publish(trade(1, size=4))
                    assert (await anext(results)).item.attributes["double"] == 8
    finally:
        sys.path.remove(str(tmp_path))


@alone
async def test_operators_of_a_lost_node_continue_and_it_is_told_when_it_comes_back() -> None:
    catalogue, events = workload(queries=3, feeds=2, events=120, seed=9)
    chosen = {"checkpoint": 0.2, "silence": 2.0, "probing": 1.0}
    async with query_network(4, **chosen) as brokers, connect(brokers[0].endpoint) as seller:  # noqa: SIM117
        async with connect(brokers[1].endpoint) as asker:
            askers = Askers()
            await askers.ask([asker], catalogue)
            lost = brokers[3]
            for name in brokers[1].place["operators"]:
                move = lambda name=name: brokers[1].broker.move(name, lost.address)  # type: ignore[union-attr] # noqa: E731
                brokers[1]._runner.call(move)  # type: ignore[union-attr]
            await until(lambda: bool(lost.place["operators"]) and not brokers[1].place["operators"])
            half = len(events) // 2
            await seller.publish(*events[:half])
            await asyncio.sleep(
                0.5
            )  # a checkpoint is promised within 0.2 s: what is lost before it may be read again
            await lost.stop()
            await until(lambda: any(broker.place["operators"] for broker in brokers[:3]))
            await seller.publish(*events[half:])
            await askers.check(due(catalogue, events))
            told: list[str] = []
            again = LiveBroker(
                "distributary",
                "queries",
                name="n4",
                contacts=[brokers[0].endpoint],
                chosen={"brokers": ["n1", "n2", "n3", "n4"], **chosen},
                on_notice=told.append,
            )
            async with again:
                await again.failure.wait()
            assert any("it is no member any more" in line for line in told)


@alone
async def test_a_query_of_a_client_whose_broker_ends_goes_on_at_another() -> None:
    async with query_network(3, checkpoint=0.2, silence=2.0) as brokers:  # noqa: SIM117
        async with connect(brokers[0].endpoint) as seller:
            await seller.register(TRADES)
            async with connect(brokers[2].endpoint, brokers[1].endpoint) as asker:  # noqa: SIM117
                async with asker.query(large().query()) as results:
                    await seller.publish(trade(1))
                    assert (await anext(results)).item.id == "t1"
                    await brokers[2].stop()
                    await until(lambda: bool(brokers[1].place["operators"]))
                    number, got = 1, asyncio.ensure_future(anext(results))
                    while not got.done():
                        number += 1
                        await seller.publish(trade(number))
                        await asyncio.sleep(0.05)
                    assert got.result().item.id in {f"t{each}" for each in range(2, number + 1)}
                    assert asker.gaps == 1


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ({}, "setting brokers of system 'queries' is missing"),
        ({"brokers": ["b"]}, "does not name this node"),
        ({"brokers": ["a"], "registry": "z"}, "'z' is not in brokers"),
        ({"brokers": ["a"], "goal": "more"}, "setting goal of system 'queries' cannot be read"),
        ({"brokers": ["a"], "functions": ["os"]}, "functions written module:name, not 'os'"),
    ],
)
def test_settings_that_make_no_sense_are_told(chosen: dict[str, object], reason: str) -> None:
    async def begin() -> None:
        async with LiveBroker("distributary", "queries", name="a", chosen=chosen):
            pass

    with pytest.raises(DistributaryError, match=reason):
        asyncio.run(begin())


FILE = """
[sources.trades]
topic = "trades"
time = "at"
schema = { symbol = "text", size = "integer", at = "integer" }

[[queries.busy.operators]]
name = "large"
filter = { from = "trades", where = "size > 5" }
"""


def test_a_network_of_processes_runs_the_queries_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = LocalNetwork(tmp_path / "net")
    described = network.up(3, "queries")
    file, out, seen = tmp_path / "queries.toml", tmp_path / "out.jsonl", tmp_path / "seen.jsonl"
    file.write_text(FILE)
    first, second, third = (node["client"] for node in described["nodes"])
    asked = subprocess.Popen(
        command("query", str(file), "--at", second, "--out", str(out)), stderr=subprocess.PIPE, text=True
    )
    read = None
    try:
        assert asked.stderr is not None
        assert asked.stderr.readline() == "queries run at node-2: busy\n"
        read = subprocess.Popen(
            command("subscribe", "--at", third, "--topic", "busy/large", "--out", str(seen), "--count", "4"),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert read.stderr is not None
        read.stderr.readline()
        assert main(["network", "status", "--dir", str(network.directory), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)["queries"]
        assert shown == {"registry": ["node-1"], "operators": {"busy.large": "node-2"}}
        assert main(["network", "status", "--dir", str(network.directory)]) == 0
        assert "busy.large" in capsys.readouterr().out
        records = [{"id": f"t{n}", "topic": "trades", "symbol": "A", "size": n, "at": n} for n in range(10)]
        ran = run("publish", "--to", first, "--events", "-", given="\n".join(map(json.dumps, records)))
        assert ran.returncode == 0
        assert lines_of(out, 4) == lines_of(seen, 4) == ["t6", "t7", "t8", "t9"]
        assert read.wait(20) == 0
        asked.send_signal(signal.SIGTERM)
        assert asked.wait(20) == 0
        assert asked.stderr.read() == "4 items written\n"
        assert network.view()["queries"]["operators"] == {}
        assert main(["query", str(file), "--at", first, "--only", "quiet"]) == 2
        assert "has no query 'quiet'" in capsys.readouterr().err
        assert main(["query", str(file), "--at", first, "--sources"]) == 0
    finally:
        for process in (asked, read):
            if process is not None:
                process.kill()
                process.communicate()
        stop(network)
    assert os.path.exists(tmp_path / "net" / "node-1.log")
