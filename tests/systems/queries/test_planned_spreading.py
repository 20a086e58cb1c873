"""What a plan counts of streams that spread by trees, beside what nodes of a simulated network send."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from distributary.flow import Catalogue, Item
from distributary.flow.language.file import read_catalogue
from distributary.overlay.courier import Packet
from distributary.overlay.node import Address, Message
from distributary.plan.queries.cost import MeasuredPlacement
from distributary.plan.queries.goals import LATENCY
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.plan_file import read_query_plan
from distributary.sim.latency import Latency
from distributary.sim.simulator import Observer
from distributary.systems.queries.messages import StreamElements
from distributary.toml_files import read_toml
from systems.queries.worlds import World

STREAM = "first.all"
READERS = 9
A_SECOND = 5
"""Items that are fed."""
SECONDS = 12
GOALS = [
    "minimise aggregate(SUM, forwarding rate, BROKERS)",
    "; ".join(line.strip() for line in LATENCY.strip().splitlines()),
    "minimise aggregate(MAX, fanout, BROKERS)",
]
"""One for each preference by which parents are chosen."""


class MatrixDelay(Latency):
    """Fixed delays between nodes 1, 2, ..., in milliseconds."""

    def __init__(self, matrix: list[list[int]]) -> None:
        super().__init__()
        self._matrix = matrix

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        return self._matrix[sender - 1][to - 1] / 1000


class ItemsSent(Observer):
    """How many items of the stream each node sent to each other one."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Address, Address]] = Counter()

    def sent(self, now: float, sender: Address, to: Address, message: object, *rest: object) -> None:
        inner = message.message if isinstance(message, Packet) else message
        if isinstance(inner, StreamElements) and inner.stream == STREAM:
            self.counts[sender, to] += sum(element.item is not None for element in inner.elements)


def random_delays(random: Random) -> list[list[int]]:
    """Between all nodes, no two alike, so that there is one best parent."""
    count = READERS + 1
    drawn = iter(random.sample(range(5, 80), count * (count - 1) // 2))
    rows = [[0] * count for _ in range(count)]
    for one in range(count):
        for other in range(one):
            rows[one][other] = rows[other][one] = next(drawn)
    return rows


def written(
    folder: Path, delays: list[list[int]], goal: str, fanout: int | None
) -> tuple[Catalogue, Placement]:
    """The queries of a file, and the plan's beginning, with every operator where its client is."""
    queries = """
[sources.trades]
topic = "trades"
time = "at"
schema = { size = "integer", at = "integer" }
[[queries.first.operators]]
name = "all"
filter = { from = "trades", where = "size >= 0" }
""" + "".join(
        f'[[queries.q{node}.operators]]\nname = "few"\n'
        f'truncate = {{ from = "{STREAM}", window = "{node} minutes", items = 2 }}\n'
        for node in range(2, READERS + 2)
    )
    plan = ("" if fanout is None else f"fanout = {fanout}\n") + f'queries = "queries.toml"\ngoal = "{goal}"\n'
    plan += f"latency = {delays}\nsite = [" + ", ".join(
        f'{{ name = "n{node}" }}' for node in range(1, READERS + 2)
    )
    plan += (
        f']\n[source.trades]\nsite = "n1"\nrate = {A_SECOND}\nitems = {A_SECOND}\n[client]\nfirst = "n1"\n'
    )
    plan += "".join(f'q{node} = "n{node}"\n' for node in range(2, READERS + 2))
    plan += f'[operator."{STREAM}"]\nselectivity = 1\n'
    (folder / "queries.toml").write_text(queries)
    (folder / "plan.toml").write_text(plan)
    return read_catalogue(read_toml(folder / "queries.toml")), read_query_plan(folder / "plan.toml").start


def sent_in_network(
    catalogue: Catalogue, delays: list[list[int]], placement: Placement, fanout: int
) -> ItemsSent:
    """What nodes send of the stream, where readers have come nearest first."""
    spreading = placement.network.spreading
    prefer = None if spreading is None else spreading.prefer
    world = World(READERS + 1, 1, network=MatrixDelay(delays), fanout=fanout, prefer=prefer)
    world.run(40)  # all links are measured
    nearest = sorted(range(2, READERS + 2), key=lambda node: delays[0][node - 1])
    order = {name: catalogue.queries[name] for name in ("first", *(f"q{node}" for node in nearest))}
    at = {"trades": 1, "first": 1, **{f"q{node}": node for node in nearest}}
    world.register(Catalogue(catalogue.sources.values(), order.values()), at)
    seen = ItemsSent()
    world.simulator.observe(seen)
    for number in range(SECONDS * A_SECOND):
        time = number * 1000 // A_SECOND
        world.feed("trades", Item(f"t{number}", time, {"size": number, "at": time}))
        world.run(1 / A_SECOND)
    world.run(20)
    return seen


@pytest.mark.parametrize("fanout", [None, 1, 2, 4])
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("seed", range(2))
def test_a_plan_counts_what_nodes_of_the_network_send(
    seed: int, goal: str, fanout: int | None, tmp_path: Path
) -> None:
    delays = random_delays(Random(f"{seed}/{goal}"))
    catalogue, placement = written(tmp_path, delays, goal, fanout)
    seen = sent_in_network(catalogue, delays, placement, READERS if fanout is None else fanout)
    measured = MeasuredPlacement(placement)
    [host] = [index for index, one in enumerate(placement.workload.operators) if one.name == STREAM]
    planned = Counter[tuple[Address, Address]]()
    parents = placement.network.spread(0, set(range(1, READERS + 1)))
    for site, parent in parents.items():
        planned[parent + 1, site + 1] = SECONDS * A_SECOND
    assert seen.counts == planned, "the tree of the plan is that of the network"
    for site in range(READERS + 1):
        sent = sum(count for (node, _), count in seen.counts.items() if node == site + 1) / SECONDS
        output = measured.operator_statistic("output rate", host) if site == 0 else 0
        assert output + measured.node_statistic("forwarding rate", site) == sent
