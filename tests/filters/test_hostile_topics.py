"""Random and hostile topics and patterns: answered as the oracle says, or refused by our errors."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from random import Random

import pytest

from distributary.errors import FilterError, InputError
from distributary.filters.topic import TopicFilter
from distributary.matching.batch import EventBatch
from distributary.matching.topic.shapes import TopicShapes
from distributary.model import MAX_TOPIC_BYTES, MAX_TOPIC_LEVELS, Event
from properties import oracle_topic

SEED = os.environ.get("DISTRIBUTARY_SEED", "1")
PIECES = [*"aab///**##++$", "mqtt:", "$S", "$share/", "é", "\0", "\n", "😀", "\ud800", "\udc00", " "]
FEW = [*"ab///", "a/b", "*", "+"]
A_ROUND = 50
"""Patterns, and as many topics, that meet each other."""


def random_text(random: Random, start: str) -> str:
    pieces = FEW if random.random() < 0.6 else PIECES
    text = start + "".join(random.choices(pieces, k=random.randint(0, 9))) + random.choice(["", "", "/#"])
    if random.random() < 0.002:  # near the limits, and beyond
        text += random.choice(["/", "a/", "a", "é", "*/"]) * random.choice([1_000, 1_022, 1_024, 40_000])
    return text


def check_round(random: Random) -> int:
    """Let patterns and topics meet, one by one and in an index; how many of them were accepted."""
    patterns, filters, events = [], [], []
    for _ in range(A_ROUND):
        text = random_text(random, random.choice(["", "mqtt:"]))
        with suppress(FilterError):
            filters.append(TopicFilter.parse(text))
            patterns.append(text)
            assert TopicFilter.parse(filters[-1].text) == filters[-1]
        with suppress(InputError):
            events.append(Event("e", topic=random_text(random, "")))
    index = TopicShapes()
    index.add_many(range(len(filters)), filters)
    found = index.match_batch(EventBatch.from_events(events))
    pairs = list(zip(found.rows.tolist(), found.slots.tolist(), strict=True))
    wanted = {
        (row, slot)
        for row, event in enumerate(events)
        for slot, pattern in enumerate(patterns)
        if oracle_topic.matches(pattern, str(event.topic))
    }
    assert len(pairs) == len(wanted)
    assert set(pairs) == wanted
    assert wanted == {
        (row, slot)
        for row, event in enumerate(events)
        for slot, filter in enumerate(filters)
        if filter.matches(event)
    }
    return len(filters) + len(events)


def check_many(count: int) -> None:
    accepted = sum(check_round(Random(f"{SEED}/{number}")) for number in range(count // (2 * A_ROUND)))
    assert count / 4 < accepted < count  # enough of both


def test_random_topics_and_patterns_are_answered_or_refused() -> None:
    check_many(10_000)


@pytest.mark.chaos
def test_a_million_random_topics_and_patterns_are_answered_or_refused() -> None:
    check_many(1_000_000)


DEEP = MAX_TOPIC_LEVELS - 1
HOSTILE = {
    "slashes": ("mqtt:" + "/" * DEEP, "/" * DEEP),
    "wildcards": ("mqtt:" + "+/" * (DEEP - 1) + "+/b", "/" * DEEP),
    "our wildcards": ("a" + "/*" * (DEEP - 1) + "/b", "a" + "/a" * DEEP),
    "one long level": ("a" * MAX_TOPIC_BYTES, "a" * MAX_TOPIC_BYTES),
    "nearly alike": ("mqtt:" + "a" * (MAX_TOPIC_BYTES - 1) + "b", "a" * MAX_TOPIC_BYTES),
    "signs": ("mqtt:+/" + "*" * (MAX_TOPIC_BYTES - 2), "+/" + "*" * (MAX_TOPIC_BYTES - 2)),
}
"""A pattern and a topic at the limits."""


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_at_the_limits_takes_no_time(name: str) -> None:
    pattern, topic = HOSTILE[name]
    random = Random(name)
    index = TopicShapes()
    texts = [pattern, *(pattern[: random.randrange(6, len(pattern))].rstrip("*+") + "x" for _ in range(50))]
    index.add_many(range(len(texts)), map(TopicFilter.parse, texts))
    index.match(Event("e", topic=topic))
    started = time.perf_counter()
    for _ in range(20):
        found = index.match(Event("e", topic=topic))
    assert time.perf_counter() - started < 10, "quadratic time would take minutes"
    assert (0 in found) == oracle_topic.matches(pattern, topic)
