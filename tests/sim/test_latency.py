"""Latency models: what they say, the order they keep, and the files they read."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as some

from distributary.errors import DistributaryError
from distributary.sim.latency import (
    BandwidthLatency,
    ConstantLatency,
    Latency,
    MatrixLatency,
    UniformLatency,
    WideAreaLatency,
)
from distributary.sim.simulator import Simulator
from sim.chatter import chatting


def models(seed: int) -> dict[str, Latency]:
    return {
        "constant": ConstantLatency(0.05),
        "uniform": UniformLatency(0.01, 0.7, seed=seed),
        "matrix": MatrixLatency(["a", "b"], [[0, 80], [300, 1]], seed=seed),
        "wide area": WideAreaLatency(seed=seed),
        "bandwidth": BandwidthLatency(UniformLatency(0.01, 0.7, seed=seed), 500),
    }


@pytest.mark.parametrize("name", models(1))
def test_messages_of_a_link_arrive_in_the_order_they_were_sent(name: str) -> None:
    population = chatting(Simulator(1, models(1)[name]))
    population.simulator.run(until=20)
    for chatter in population.members.values():
        words = defaultdict(list)
        for _, sender, number in chatter.heard:
            words[sender].append(number)
        assert words
        for numbers in words.values():
            assert numbers == list(range(1, len(numbers) + 1))


@given(some.integers(0, 10**6), some.lists(some.tuples(some.floats(0, 9), some.floats(0, 9)), max_size=30))
def test_order_holds_whatever_the_rounding(seed: int, steps: list[tuple[float, float]]) -> None:
    random = Random(seed)

    class Given(Latency):
        def delay(self, now: float, sender: int, to: int, message: object) -> float:
            return random.choice(steps)[1]

    model, now, last = Given(), float(seed), 0.0
    for wait, _ in steps:
        now += wait
        (delay,) = model.delays(now, 1, 2, "")
        assert delay >= 0
        assert now + delay >= last
        last = now + delay


def test_the_same_seed_gives_the_same_delays_and_another_gives_others() -> None:
    def drawn(seed: int) -> list[list[float]]:
        return [[model.delay(0, 1, to, "x") for to in range(2, 40)] for model in models(seed).values()]

    assert drawn(1) == drawn(1)
    constant, *others = zip(drawn(1), drawn(2), strict=True)
    assert constant[0] == constant[1]
    assert all(one != other for one, other in others)


def test_where_a_node_stands_does_not_depend_on_what_was_asked_before() -> None:
    forwards, backwards = WideAreaLatency(seed=3), WideAreaLatency(seed=3)
    pairs = list(combinations(range(12), 2))
    ahead = {pair: forwards.round_trip(*pair) for pair in pairs}
    behind = {pair: backwards.round_trip(*reversed(pair)) for pair in reversed(pairs)}
    assert ahead == behind


def test_the_wide_area_is_shaped_like_measured_ones() -> None:
    model = WideAreaLatency(seed=1)
    trips = sorted(1000 * model.round_trip(one, other) for one, other in combinations(range(150), 2))
    assert 100 < median(trips) < 200
    assert trips[len(trips) // 100] < 30, "some are near"
    assert trips[-len(trips) // 100] > 300, "some are very far"
    random = Random(1)
    triples = [random.sample(range(150), 3) for _ in range(5000)]
    detours = sum(
        model.round_trip(one, other) > model.round_trip(one, third) + model.round_trip(third, other)
        for one, other, third in triples
    )
    assert 0.01 < detours / len(triples) < 0.2, "some ways over a third node are shorter"


def test_messages_of_a_pair_vary_a_little_and_never_beat_the_quickest() -> None:
    model = WideAreaLatency(seed=1)
    delays = [model.delay(0, 1, 2, "") for _ in range(500)]
    least = model.round_trip(1, 2) / 2
    assert min(delays) >= least
    assert max(delays) > 1.1 * least
    assert median(delays) < 1.1 * least


def test_a_line_carries_one_message_after_another() -> None:
    model = BandwidthLatency(ConstantLatency(1.0), bytes_per_second=10)
    text = "123456789"  # ten bytes with its header
    assert model.delays(0.0, 1, 2, text) == (2.0,)
    assert model.delays(0.0, 1, 3, text) == (3.0,), "waits for the first, though it goes elsewhere"
    assert model.delays(0.0, 2, 1, text) == (2.0,), "another node's line is free"
    assert model.delays(5.0, 1, 2, text) == (2.0,), "and free again later"


def test_a_matrix_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("\ufeff,Athens,Patras\nAthens,,8.5\n\nPatras,9,0.5\n", encoding="utf-8")
    model = MatrixLatency.read(path, seed=1, places={1: "Athens", 2: "Patras"})
    assert model.delay(0, 1, 2, "") == pytest.approx(0.00425)
    assert model.delay(0, 2, 1, "") == pytest.approx(0.0045)
    assert model.delay(0, 1, 1, "") == 0
    assert {model.delay(0, 1, node, "") for node in range(3, 40)} == {0, 0.00425}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("name\n", ":1: the first line names every place once"),
        (",a,a\na,1,1\na,1,1\n", ":1: the first line names every place once"),
        (",a,b\na,1,2\n", "no line for 'b'"),
        (",a,b\nb,1,2\na,1,2\n", ":2: 'b' stands where the first line has 'a'"),
        (",a\na,1\nb,1\n", ":3: 'b' stands where the first line has no further line"),
        (",a,b\na,1\nb,1,2\n", ":2: 1 times, but there are 2 places"),
        (",a,b\na,1,2\n\nb,quick,2\n", ":4: 'quick' for 'a' is no time"),
        (",a,b\na,1,\nb,1,2\n", ":2: '' for 'b' is no time"),
        (",a,b\na,1,-2\nb,1,2\n", ":2: '-2' for 'b' is no time"),
        (",a,b\na,1,nan\nb,1,2\n", ":2: 'nan' for 'b' is no time"),
    ],
)
def test_a_bad_matrix_is_told_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(DistributaryError) as caught:
        MatrixLatency.read(path, seed=1)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="cannot read"):
        MatrixLatency.read(tmp_path / "nowhere.csv", seed=1)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DistributaryError, match="is no CSV file"):
        MatrixLatency.read(tmp_path / "binary.csv", seed=1)
    with pytest.raises(DistributaryError, match="as many rows"):
        MatrixLatency(["a", "b"], [[1, 2]], seed=1)
    with pytest.raises(DistributaryError, match="'c', which is not in the matrix"):
        MatrixLatency(["a"], [[1]], seed=1, places={1: "c"})
    with pytest.raises(DistributaryError, match="must not be the smaller"):
        UniformLatency(2, 1, seed=1)
    with pytest.raises(DistributaryError, match="0 or more"):
        ConstantLatency(-1)
    with pytest.raises(DistributaryError, match="bytes a second"):
        BandwidthLatency(ConstantLatency(1), 0)
