"""Traces: the same seed gives the same bytes in every process, and differences are found."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from distributary.errors import DistributaryError
from distributary.model import Event
from distributary.overlay.node import Node
from distributary.overlay.trace_text import text_of
from distributary.sim.latency import ConstantLatency, WideAreaLatency
from distributary.sim.scenario import SCENARIOS, random_scenario
from distributary.sim.simulator import Simulator
from distributary.sim.trace import Trace, compare
from sim.chatter import chatting

TESTS = Path(__file__).parent.parent


def traced(seed: int, path: Path | None = None) -> str:
    """Everything that can go wrong does, and is told."""
    with Trace(path) as trace:
        world = Simulator(seed, WideAreaLatency(seed=seed), [trace])
        population = chatting(world, 8, every=0.5)
        scenario = random_scenario(
            seed, range(8), kinds=SCENARIOS["everything"], spares=[20, 21], start=1, duration=30, gap=1
        )
        injection = scenario.inject(population)
        world.run(until=35)
        scenario.require_fired(injection)
        assert trace.lines > 5000
        return trace.digest()


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    code = "from sim.test_trace import traced; print(traced(7))"
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1] == traced(7)


def test_different_seeds_give_different_traces() -> None:
    assert traced(7) != traced(8)


@pytest.mark.parametrize("ending", ["txt", "txt.gz"])
def test_traces_are_written_and_compared(tmp_path: Path, ending: str) -> None:
    first, again, other = (tmp_path / f"{name}.{ending}" for name in ("first", "again", "other"))
    digest = traced(7, first)
    assert traced(7, again) == digest
    traced(8, other)
    assert first.read_bytes() == again.read_bytes()
    assert compare(first, again) is None
    difference = compare(first, other)
    assert difference is not None
    assert difference.number == len(difference.before) + 1 or len(difference.before) == 5
    assert f"part at line {difference.number:,}" in str(difference)


def test_a_trace_tells_what_happened(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt.gz"

    class Note(NamedTuple):
        event: Event

    one, two = Node(1), Node(2)
    two.handle(Note, lambda note, sender: two.wake_after(1, "later", note.event.id))
    two.at_alarm("later", two.deliver)
    with Trace(path) as trace:
        world = Simulator(1, ConstantLatency(0.5), [trace])
        world.add(one)
        world.add(two)
        world.call(1, lambda: one.send(2, Note(Event("e", topic="A"))), cause=("publish", "e"))
        world.call(1, lambda: one.send(3, Note(Event("f"))))
        world.run()
        world.crash(2)
    note = "Note(event=Event(id='e', topic='A', attributes={}, document=None))"
    lost = "Note(event=Event(id='f', topic=None, attributes={}, document=None))"
    with gzip.open(path, "rt") as stream:
        assert stream.read().splitlines() == [
            "0.0 happened 1 start",
            "0.0 happened 2 start",
            f"0.0 sent 1 > 2 {note} | publish e depth 1",
            f"0.0 sent 1 > 3 {lost} | upkeep depth 1",
            f"0.5 received 1 > 2 {note}",
            f"0.5 missed 1 > 3 {lost}",
            "1.5 woken 2 later 'e'",
            "1.5 delivered 2 'e' | publish e depth 1",
            "1.5 happened 2 crash",
        ]


def test_the_first_difference_is_shown_with_what_came_before(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("a\nb\nc\nd\n")
    second.write_text("a\nb\nx\nd\n")
    assert str(compare(first, second, context=1)) == "the traces part at line 3:\n  b\n< c\n> x"
    second.write_text("a\nb\nc\n")
    assert str(compare(first, second, context=1)) == "the traces part at line 4:\n  c\n< d\n> (ends here)"


class Point(NamedTuple):
    x: int


@dataclass(frozen=True)
class Place:
    point: Point
    names: frozenset[str]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Place(Point(1), frozenset("cab")), "Place(point=Point(x=1), names=frozenset({'a', 'b', 'c'}))"),
        ({"b": 1, "a": (2,)}, "{'b': 1, 'a': (2,)}"),
        ([True, None, b"x"], "[True, None, b'x']"),
        ({3, 1, 2}, "set({1, 2, 3})"),
    ],
    ids=["messages", "mappings", "lists", "sets"],
)
def test_texts_do_not_depend_on_hashing(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_what_has_no_faithful_text_is_refused() -> None:
    with pytest.raises(DistributaryError, match="cannot tell a object"):
        text_of((object(),))
    with pytest.raises(DistributaryError, match="cannot tell a function"):
        text_of(lambda: None)


def test_files_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="cannot write"):
        Trace(tmp_path)
    with pytest.raises(DistributaryError, match="cannot read the trace"):
        compare(tmp_path / "nothing", tmp_path / "nothing")
    (tmp_path / "plain.gz").write_text("not compressed")
    with pytest.raises(DistributaryError, match="cannot read the trace"):
        compare(tmp_path / "plain.gz", tmp_path / "plain.gz")
