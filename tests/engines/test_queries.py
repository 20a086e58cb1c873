"""The same queries on every engine: hand-written cases with known answers, and random ones.

To add a case, write a function in `query_cases`; to add an engine, a function in `queries.ENGINES`. The
interpreter says what every other stream must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

from distributary.flow import Catalogue, Item
from distributary.model import Event
from engines.marks import engine, engines
from engines.queries import ENGINES, KNOW_LATENESS, Answers, Feed, differences, interpreter
from engines.query_cases import CASES, QueryCase, combined, projected
from engines.sessions import Sessions
from flow.random_queries import (
    KINDS,
    RANDOMS,
    SOURCES,
    events_of,
    random_arrivals,
    random_catalogue,
    random_items,
    random_streams,
)
from flow.test_entries import STAGES, chain, random_events

WITHOUT_FUNCTIONS = tuple(kind for kind in KINDS if kind != "function")

WHOLE = ("interpreter", "incremental", "network")
"""These run all cases in the tests of every day."""
IN_SHARES = ("spark-batch", "spark-connect", "spark-stream", "spark-connect-stream", "spark-cluster-stream")
"""Spark costs seconds for an operator: these run a share or, with `make chaos`, all."""
SHARED_DAILY = ("spark-batch", "spark-stream")
"""Of those, the engines whose share runs in the tests of every day."""
SHARE = (
    "filter_keeps_what_is_true_and_block_drops_what_is_true",
    "time_windows_aggregate_by_group_and_ignore_nulls",
    "join_pairs_equal_keys_that_are_near_in_time",
    "truncate_after_sort_gives_the_best_of_each_window",
    "what_is_late_is_in_no_window",
    "functions_see_an_item_or_a_window",
    "stages_rewrite_topics_one_after_the_other_and_events_from_outside_are_read_with_them",
)


def arrived(rng: Random, items: dict[str, list[Item]]) -> list[Event]:
    """The events of items in a random order in which none is late."""
    steps = [(source, step) for source, step in random_arrivals(rng, items) if isinstance(step, Item)]
    return [event for source, item in steps for event in events_of({source: [item]})]


def since_1970(rng: Random, count: int = 14, span: int = 60) -> dict[str, list[Item]]:
    """Items for every source, none before 1970: those are late for a stream of Spark's."""
    beginning = rng.choice([0, 1_700_000_000_000])
    return {
        source.name: random_items(rng, source.schema, count, beginning, span, rng.choice([3, 20]))
        for source in SOURCES
    }


def random_feed(seed: int, kinds: Sequence[str], queries: int) -> tuple[Catalogue, list[Event]]:
    """Many queries at once, for a job of Spark's takes its time however little it does."""
    catalogue = random_catalogue(Random(f"queries {seed}"), kinds, max_operators=4, queries=queries)
    rng = Random(f"items {seed}")
    return catalogue, arrived(rng, since_1970(rng))


def feed_of(name: str, place: Path) -> Feed:
    """What is run together: "whole", or what streams run of it every day and otherwise."""
    cases = list(CASES.values())
    kinds, seed, queries = KINDS, 31, 6
    if name != "whole":
        cases = [case for case in cases if (case.name in SHARE) == (name == "share")]
        kinds = WITHOUT_FUNCTIONS
        seed, queries = (35, 1) if name == "share" else (36, 3)
    catalogue, events = random_feed(seed, kinds, queries)
    return Feed(combined(cases, catalogue), interleaved(cases) + events, place, late_of(cases))


def interleaved(cases: Sequence[QueryCase]) -> list[Event]:
    rounds = zip_longest(*(case.events for case in cases))
    return [event for round in rounds for event in round if event is not None]


def late_of(cases: Sequence[QueryCase]) -> list[Event]:
    return [event for case in cases for event in case.late]


Answered = Callable[[str, str], tuple[Feed, Answers]]


@pytest.fixture(scope="session")
def answered(sessions: Sessions, tmp_path_factory: pytest.TempPathFactory) -> Answered:
    """What an engine gives for all that is run together, which it runs once."""
    known: dict[tuple[str, str], tuple[Feed, Answers]] = {}

    def run(engine: str, name: str) -> tuple[Feed, Answers]:
        if (engine, name) not in known:
            feed = feed_of(name, tmp_path_factory.mktemp("queries"))
            known[engine, name] = feed, ENGINES[engine](feed, sessions)
        return known[engine, name]

    return run


EACH_CASE = [
    *(engine(name, "whole", case) for name in WHOLE for case in CASES),
    *(engine("spark-cluster", "whole", case, chaos=True) for case in CASES),
    *(
        engine(name, portion, case, chaos=name not in SHARED_DAILY or portion == "rest")
        for name in IN_SHARES
        for case in CASES
        for portion in ["share" if case in SHARE else "rest"]
    ),
]


@pytest.mark.parametrize(("engine", "portion", "case"), EACH_CASE)
def test_a_case_has_the_answer_that_was_worked_out(
    answered: Answered, engine: str, portion: str, case: str
) -> None:
    _, found = answered(engine, portion)
    for stream, (columns, values) in CASES[case].expected.items():
        have = projected(found[stream], columns)
        assert list(map(repr, have)) == list(map(repr, values)), stream


EACH_STREAM = [
    *(engine(name, "whole") for name in WHOLE if name != "interpreter"),
    engine("spark-cluster", "whole", chaos=True),
    *(
        engine(name, portion, chaos=name not in SHARED_DAILY or portion == "rest")
        for name in IN_SHARES
        for portion in ("share", "rest")
    ),
]


@pytest.mark.parametrize(("engine", "portion"), EACH_STREAM)
def test_every_stream_of_cases_and_random_queries_holds_what_the_interpreter_gives(
    answered: Answered, engine: str, portion: str
) -> None:
    feed, found = answered(engine, portion)
    check(engine, feed, found)


def check(engine: str, feed: Feed, found: Answers) -> None:
    """The engine shows all streams that it can, and each is what the interpreter gives."""
    catalogue = feed.catalogue
    wanted = interpreter(feed)
    if engine == "network":
        wanted = {name: wanted[name] for query in catalogue.queries for name in catalogue.outputs(query)}
    assert set(found) == set(wanted)
    assert differences(catalogue, found, wanted) == []


def test_engines_that_know_lateness_are_given_late_events() -> None:
    assert late_of(list(CASES.values()))
    assert {case for case in CASES if CASES[case].late} <= set(SHARE)
    assert set(KNOW_LATENESS) <= set(ENGINES)


RANDOM = [
    *(engine("incremental", seed) for seed in range(25)),
    *(engine("network", seed) for seed in range(6)),
    *(engine("network", seed, chaos=True) for seed in range(6, 60)),
]


@pytest.mark.parametrize(("engine", "seed"), RANDOM)
def test_random_queries_give_what_the_interpreter_gives(
    sessions: Sessions, tmp_path: Path, engine: str, seed: int
) -> None:
    rng = Random(f"{seed}/static")
    catalogue = random_catalogue(rng)
    feed = Feed(catalogue, arrived(rng, random_streams(rng)), tmp_path)
    check(engine, feed, ENGINES[engine](feed, sessions))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", engines(["incremental"]))
@settings(max_examples=30)
@given(rng=RANDOMS)
def test_queries_of_one_kind_give_what_the_interpreter_gives(engine: str, kind: str, rng: Random) -> None:
    catalogue = random_catalogue(rng, [kind], max_operators=2, queries=1)
    feed = Feed(catalogue, arrived(rng, random_streams(rng, max_items=30, span=40)), Path())
    check(engine, feed, ENGINES[engine](feed, Sessions(lambda: pytest.fail("needs no Spark"))))


@pytest.mark.parametrize("engine", engines(["incremental"]))
@given(rng=RANDOMS)
def test_stages_that_read_one_another_by_topics_give_what_the_interpreter_gives(
    engine: str, rng: Random
) -> None:
    catalogue = Catalogue(STAGES, chain())
    feed = Feed(catalogue, sorted(random_events(rng), key=lambda event: event.attributes["at"]), Path())
    check(engine, feed, ENGINES[engine](feed, Sessions(lambda: pytest.fail("needs no Spark"))))


MANY = [
    *(engine("spark-batch", seed, 12, chaos=True) for seed in range(2, 12)),
    *(engine("spark-stream", seed, 8, chaos=True) for seed in range(2, 8)),
    *(engine(f"spark-{where}", 32, 6, chaos=True) for where in ("connect", "cluster")),
    *(engine(f"spark-{where}-stream", 32, 4, chaos=True) for where in ("connect", "cluster")),
]


@pytest.mark.parametrize(("engine", "seed", "queries"), MANY)
def test_many_random_queries_give_what_the_interpreter_gives(
    sessions: Sessions, tmp_path: Path, engine: str, seed: int, queries: int
) -> None:
    catalogue, events = random_feed(seed, KINDS, queries)
    feed = Feed(catalogue, events, tmp_path)
    check(engine, feed, ENGINES[engine](feed, sessions))
