"""What the topic paper's three algorithms and our index cost (Figures 5, 7 and 8, and section IV.B.2).

A point is one algorithm with so many subscriptions of 7 levels, each level one of 50 values and one of them a
wildcard, as section IV.B.1 draws them. All algorithms of one repetition hold the same subscriptions and see
the same events, and each is checked against the filters themselves before it is timed. The paper's numbers
are those of Java on another machine, so claims are about order, within one run.

Times are processor time, which neighbours on the machine move less than the clock on the wall. The paper's
three match event by event. Our index is made for batches, so its time is that of a batch, divided; and it
compiles what is added when it is next asked, so adding includes that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from time import process_time as clock
from typing import Any

import numpy as np

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.matching.batch import EventBatch
from distributary.matching.engines import index_class
from distributary.matching.index import Index
from distributary.matching.layers import CompiledIndex
from distributary.matching.topic.regex import TopicRegex, expression
from distributary.model import Event
from distributary.workloads import topics
from distributary_lab import words
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Verdict, answer, grid
from distributary_lab.rows import largest, listed, means, named, number, select, shown
from distributary_lab.xml.paths import least_seconds

LEVELS = 7
OURS = "shapes"
PAPERS = ("tree", "hash", "regex")
ALGORITHMS = (*PAPERS, OURS)

CHANGED = 1_000
"""How many subscriptions are added to a full index, and removed again, to learn what one costs."""

RUNS = 100
"""Each point of the paper's plots is the mean of a hundred runs."""

BLOCK = 50
"""Events matched in a run, so that reading the clock does not count; regular expressions take one."""

MOST_SECONDS = 2.0
"""An algorithm too slow for all runs within this does fewer."""


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """Fill one index, see that it answers rightly, and measure it."""
    size, repeat = int(point["subscriptions"]), int(point["repeat"])
    filters = [
        TopicFilter.parse(str(subscription.topic))
        for subscription in topics.subscriptions(size + CHANGED, seed=1 + repeat, levels=LEVELS)
    ]
    index: Index[Any] = index_class("topic", str(point["algorithm"]))()
    index.add_many(range(size), filters[:size])
    index.compact()
    _verify(index, filters[:size], random)
    events = list(topics.events(RUNS * RUNS, seed=2 + repeat, levels=LEVELS))
    match, spread = _match_microseconds(index, events)
    add, remove = _change_microseconds(index, filters[size:], size)
    row: Row = {"match": match, "match_spread": spread, "memory": index.memory() / size}
    row |= {"add": add, "remove": remove}
    if isinstance(index, TopicRegex):
        row["compile"] = _compile_microseconds(filters[size:])
    return [row]


def _verify(index: Index[Any], filters: Sequence[TopicFilter], random: np.random.Generator) -> None:
    """Compare a few answers with the filters' own: events that some filter matches, and one of no takers."""
    for chosen in random.choice(len(filters), 3, replace=False):
        event = Event(
            "hit", topic="/".join("any" if level == WILDCARD else level for level in filters[chosen].levels)
        )
        expected = [slot for slot, filter in enumerate(filters) if filter.matches(event)]
        if index.match(event) != expected:
            raise AssertionError(f"{index.name} answers wrongly for topic {event.topic!r}")
    if index.match(Event("miss", topic="nobody")):
        raise AssertionError(f"{index.name} finds subscriptions that are not there")


def _match_microseconds(index: Index[Any], events: list[Event]) -> tuple[float, float]:
    """The median of the runs for an event, which neighbours on the machine move least, and their spread."""
    if isinstance(index, CompiledIndex):
        batch = EventBatch.from_events(events)
        times = _timed(lambda _: index.match_batch(batch)) / len(events)
    else:
        size = 1 if isinstance(index, TopicRegex) else BLOCK
        blocks = [events[run * size : (run + 1) * size] for run in range(RUNS)]
        times = _timed(lambda run: [index.match(event) for event in blocks[run]]) / size
    return float(np.median(times)), float(times.std())


def _timed(action: Callable[[int], object]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Microseconds of each run, after one that is not counted."""
    action(0)
    times: list[float] = []
    begin = clock()
    while len(times) < RUNS and (len(times) < 3 or clock() - begin < MOST_SECONDS):
        start = clock()
        action(len(times))
        times.append(clock() - start)
    return np.array(times) * 1e6


def _change_microseconds(
    index: Index[Any], filters: Sequence[TopicFilter], first: int
) -> tuple[float, float]:
    """The least of three runs for adding one subscription and for removing one."""
    slots = range(first, first + len(filters))

    def add() -> None:
        for slot, filter in zip(slots, filters, strict=True):
            index.add(slot, filter)
        if isinstance(index, CompiledIndex):
            index.match(Event("probe", topic="nobody"))

    def remove() -> None:
        for slot in slots:
            index.remove(slot)

    rounds = [[least_seconds(action, fewest=1, enough=0) for action in (add, remove)] for _ in range(3)]
    added, removed = map(min, zip(*rounds, strict=True))
    return added / len(filters) * 1e6, removed / len(filters) * 1e6


def _compile_microseconds(filters: Sequence[TopicFilter]) -> float:
    """What adding a regular expression spends on compiling it."""
    expressions = [expression(filter) for filter in filters]

    def compile_all() -> None:
        re.purge()
        for text in expressions:
            re.compile(text)

    return least_seconds(compile_all, enough=0) / len(filters) * 1e6


def costs_of(rows: Rows, measure: str) -> dict[str, float]:
    """The mean cost of each algorithm where there are most subscriptions."""
    return means(rows, measure, by="algorithm", subscriptions=largest(rows, "subscriptions"))


def _told(costs: dict[str, float], unit: str) -> str:
    ordered = {name: costs[name] for name in ALGORITHMS if name in costs}
    return named(ordered, lambda cost: f"{shown(cost)} {unit}")


def _from_least(costs: dict[str, float]) -> list[str]:
    return sorted(PAPERS, key=costs.__getitem__)


def check_match(rows: Rows) -> Verdict:
    """Figure 5."""
    costs, spread = costs_of(rows, "match"), costs_of(rows, "match_spread")
    behind, slower = costs["hash"] / costs["tree"], costs["regex"] / costs["hash"]
    candidates = (
        " With a wildcard counted at every level but the first, an event constructs 2^6 candidates of full "
        "depth for hash to look up, whichever exist; the tree walks only edges that exist."
    )
    return Verdict.of(
        words.slightly(costs["hash"], costs["tree"])
        and words.orders_of_magnitude(costs["hash"], costs["regex"]),
        ours=f"{_told(costs, 'us')}; std {spread['tree']:.2g} us tree, {spread['hash']:.2g} us hash",
        reason=f"From least to most: {listed(_from_least(costs))}. Hash takes {behind:.1f} times as long as "
        f"the tree, the regular expressions {slower:,.0f} times as long as hash, at "
        f"{largest(rows, 'subscriptions'):,} subscriptions.{candidates}",
    )


def check_add(rows: Rows) -> Verdict:
    """Figure 7."""
    compiling, adding = costs_of(rows, "compile")["regex"], costs_of(rows, "add")["regex"]
    return _check_change(
        rows,
        "add",
        f"Of the time to add a regular expression, {shown(compiling)} us is Python's re compiling the "
        f"pattern, in Python code; the rest takes {shown(max(adding - compiling, 0))} us.",
    )


def check_remove(rows: Rows) -> Verdict:
    """Figure 8."""
    return _check_change(
        rows,
        "remove",
        "Regex and hash do nearly the same to remove, one deletion from a dictionary; hash keeps its "
        "wildcard counts besides.",
    )


def _check_change(rows: Rows, measure: str, explanation: str) -> Verdict:
    costs = costs_of(rows, measure)
    order = _from_least(costs)
    best = words.no_worse(costs["regex"], costs["hash"]) and words.slightly(costs["hash"], costs["regex"])
    holds = (best or words.equal(costs["regex"], costs["hash"])) and order[-1] == "tree"
    found = f"From least to most: {listed(order)}."
    return Verdict.of(holds, ours=_told(costs, "us"), reason=f"{found} {explanation}" if not holds else found)


def check_memory(rows: Rows) -> Verdict:
    """Section IV.B.2, in bytes."""
    costs = costs_of(rows, "memory")
    least = _from_least(costs)[0]
    return Verdict.of(
        costs["tree"] > max(costs["hash"], costs["regex"]) and costs[OURS] < costs[least],
        ours=_told(costs, "B"),
        reason=f"A subscription in the tree takes {costs['tree'] / costs['hash']:.1f} times that of one in "
        f"the hash; ours takes {costs[OURS] / costs[least]:.2f} of the paper's smallest ({least}).",
    )


def check_ours(rows: Rows) -> Verdict:
    """Our index against the paper's fastest, on the paper's metric."""
    factors = [
        number(slow, "match") / number(fast, "match")
        for slow in select(rows, algorithm="tree")
        for fast in select(rows, algorithm=OURS, subscriptions=slow["subscriptions"], repeat=slow["repeat"])
    ]
    return Verdict.of(
        min(factors) > 1,
        ours=f"{min(factors):,.0f} to {max(factors):,.0f} times faster",
        reason="Ours in batches of 10,000 events, the tree event by event, as each is meant to be used.",
    )


plot = partial(Plot, x="subscriptions", series="algorithm")
times = partial(plot, y_label="microseconds", log_y=True)
FLAT = "The paper's three are flat in the number held; ours compiles what changed in segments, now and then."
MEMORY = plot(
    "Memory for a subscription",
    y="memory",
    y_label="bytes",
    about="What Python and NumPy hold for each subscription, its text included.",
)

EXPERIMENTS = (
    Experiment(
        name="topic-costs",
        title="Matching, memory, adding and removing: tree, hash, regular expressions, and our index",
        grid=grid(
            repeat=range(3), subscriptions=[10_000, 25_000, 50_000, 75_000, 100_000], algorithm=ALGORITHMS
        ),
        quick=grid(repeat=[0], subscriptions=[2_000, 30_000], algorithm=ALGORITHMS),
        run=run,
        measured=("match", "match_spread", "memory", "add", "remove", "compile"),
        ours={"algorithm": (OURS,)},
        alone=True,
        answers={
            "000-fig5": answer(
                check_match,
                times(
                    "Time to match an event",
                    y="match",
                    about="On a logarithmic scale, lower is better.",
                    reference={"the paper's hash, least": 4.0, "most": 10.0},
                ),
            ),
            "000-fig7": answer(check_add, times("Cost to add one subscription", y="add", about=FLAT)),
            "000-fig8": answer(
                check_remove, times("Cost to remove one subscription", y="remove", about=FLAT)
            ),
            "beyond-topic-memory": answer(check_memory, MEMORY),
            "beyond-topic-match": answer(check_ours),
        },
        deviation="Python in place of Java 1.6; processor time of one thread, medians of runs of 50 events.",
    ),
)
