"""The oracle's own evaluation agrees with the filters, and shares nothing with them."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from distributary.filters.profile import Profile
from distributary.filters.where.filter import WhereFilter
from distributary.model import Event, Subscription
from distributary.sim.evaluation import PlainEvaluation
from distributary.workloads import WORKLOADS, workload

ATTRIBUTES = ("a", "b", "wind.speed")
NAMES = (*ATTRIBUTES, "wind", "id", "topic")
VALUES: tuple[Any, ...] = (
    *(0, 1, -3, 2.5, 0.1, Decimal("0.1"), Decimal("2.5"), 9007199254740993),
    *("a", "ab", "b%", "", True, False, None),
)
LITERALS = ("0", "1", "-3", "2.5", "0.1", "-0.1", "9007199254740992", "'a'", "'ab'", "''", "true")
PATTERNS = ("'a%'", "'_'", "'%b%'", "'a'", "''")


def condition(draw: random.Random, depth: int = 2) -> str:
    """A random condition in which every operator that the evaluation knows can occur."""
    if depth and draw.random() < 0.7:
        one, other = condition(draw, depth - 1), condition(draw, depth - 1)
        return draw.choice([f"({one}) and ({other})", f"{one} or {other}", f"not ({one})"])
    name, literal, other = draw.choice(NAMES), draw.choice(LITERALS), draw.choice(LITERALS)
    no = draw.choice(["", "not "])
    return draw.choice(
        [
            f"{name} {draw.choice(['=', '<>', '<', '<=', '>', '>='])} {literal}",
            f"{literal} < {name}",
            f"{name} {no}between {literal} and {other}",
            f"{name} {no}in ({literal}, {other})",
            f"{name} {no}like {draw.choice(PATTERNS)}",
            f"{name} is {no}null",
            f"{name} = {draw.choice(NAMES)}",
        ]
    )


def test_conditions_mean_what_the_filters_say() -> None:
    draw = random.Random(7)
    passed = 0
    for _ in range(600):
        text = condition(draw)
        asked = PlainEvaluation(Subscription("s", "ann", where=text))
        assert not asked.borrowed, text
        for _ in range(8):
            attributes = {name: draw.choice(VALUES) for name in ATTRIBUTES}
            event = Event("ab", draw.choice([None, "a", "a/b"]), attributes)
            wanted = WhereFilter.parse(text).matches(event)
            assert asked.passes(event) == wanted, (text, event)
            passed += wanted
    assert passed > 300


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_is_evaluated_as_by_the_filters(name: str) -> None:
    events = list(workload(name).events(12, seed=3))
    for subscription in workload(name).subscriptions(60, seed=3):
        asked, filters = PlainEvaluation(subscription), Profile.of(subscription)
        assert not asked.borrowed, subscription
        for event in events:
            assert asked.passes(event) == filters.matches(event), (subscription, event)


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("A/B", "A/B/C", True),
        ("A/B/#", "A/B/C", False),
        ("A/*/C", "/A/B/C", True),
        ("mqtt:A/+", "A/B/C", False),
        ("mqtt:A/#", "A", True),
        ("mqtt:#", "$SYS/a", False),
        ("mqtt:/A", "A", False),
    ],
)
def test_topics_are_compared_level_by_level(pattern: str, topic: str, fits: bool) -> None:
    subscription = Subscription("s", "ann", topic=pattern)
    assert PlainEvaluation(subscription).passes(Event("e", topic)) is fits
    assert Profile.of(subscription).matches(Event("e", topic)) is fits


def test_a_document_is_text_whatever_encoding_it_declares() -> None:
    subscription = Subscription("s", "ann", path="/a[. = 'é']")
    event = Event("e", document="<?xml version='1.0' encoding='ISO-8859-1'?><a>é</a>")
    assert Profile.of(subscription).matches(event)
    assert PlainEvaluation(subscription).passes(event)


def test_what_it_does_not_understand_is_left_to_the_filters_and_told() -> None:
    asked = PlainEvaluation(Subscription("s", "ann", where="a + 1 > 3"))
    assert asked.borrowed
    assert asked.passes(Event("e", attributes={"a": 3}))


def test_a_broken_filter_does_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WhereFilter, "matches", lambda self, event: True)
    assert not PlainEvaluation(Subscription("s", "ann", where="a > 3")).passes(
        Event("e", attributes={"a": 3})
    )
