"""The checker of histories finds each kind of broken promise, and nothing where all were kept."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from chaos.history import Given, History, Publish, Subscribing, violations_of
from distributary.model import Event, Subscription

ANN = Subscription("s1", "ann", topic="A/*", where="price > 3")
BOB = Subscription("s1", "bob", topic="A")


def event(number: int, price: int = 5, source: str = "p") -> Event:
    return Event(f"e{number}", f"A/{number % 2}", {"price": price, "source": source})


def kept() -> History:
    """Two publishers, two subscribers, eight events; of two that were not acknowledged one came: all well."""
    history = History(subscriptions=[Subscribing(ANN, confirmed=1.0), Subscribing(BOB, confirmed=1.0)])
    for number in range(8):
        time = 2.0 + number
        sent = event(number, price=number, source="pq"[number // 4])
        history.publishes.append(Publish(sent, time, time + 0.5 if number not in (3, 7) else None))
        if number == 7:
            continue
        history.given.append(Given(BOB.key, sent, time + 0.2))
        if number > 3:
            history.given.append(Given(ANN.key, sent, time + 0.3))
    return history


def late(history: History) -> None:
    """Bob gets two events of a source and a topic in the wrong order."""
    first, second = (place for place, each in enumerate(history.given) if each.event.id in ("e0", "e2"))
    given = history.given
    given[first], given[second] = given[second], given[first]


def give(history: History, given: Given) -> None:
    history.given.append(given)


BROKEN: dict[str, tuple[str, Callable[[History], object]]] = {
    "an acknowledged event never comes": ("lost", lambda history: history.given.pop(0)),
    "the last event never comes": ("lost", lambda history: history.given.pop()),
    "an event comes again": ("twice", lambda history: give(history, history.given[-1])),
    "an event comes again much later": ("twice", lambda history: give(history, history.given[0])),
    "an event overtakes another": ("disorder", late),
    "an event was never published": (
        "unasked",
        lambda history: give(history, Given(BOB.key, event(99), 20.0)),
    ),
    "an event is not wanted": (
        "unasked",
        lambda history: give(history, Given(ANN.key, history.publishes[2].event, 20.0)),
    ),
    "an event was changed on the way": (
        "unasked",
        lambda history: history.given.__setitem__(0, Given(BOB.key, event(0, price=99), 2.2)),
    ),
    "the subscription had ended": (
        "unasked",
        lambda history: setattr(history.subscriptions[1], "ended", 7.5),
    ),
    "nobody has such a subscription": (
        "unasked",
        lambda history: give(history, Given(ANN.key._replace(id="s9"), history.publishes[5].event, 20.0)),
    ),
}


def test_a_history_in_which_all_was_kept_has_no_violations() -> None:
    assert violations_of(kept()) == []


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_found(what: str) -> None:
    kind, break_it = BROKEN[what]
    history = kept()
    break_it(history)
    assert kind in {violation.kind for violation in violations_of(history)}


def test_what_is_not_promised_may_be_missing() -> None:
    history = kept()
    history.given = [each for each in history.given if each.event.id != "e3"]  # not acknowledged
    history.subscriptions.append(Subscribing(Subscription("s2", "ann", topic="A"), confirmed=9.5))
    history.subscriptions.append(Subscribing(Subscription("s3", "ann", topic="A"), confirmed=1.0, ended=1.5))
    assert violations_of(history) == []


def test_only_events_since_a_time_are_looked_at() -> None:
    history = kept()
    history.given = [each for each in history.given if each.event.id != "e1"]
    assert violations_of(history) != []
    assert violations_of(history, since=3.5) == []
    assert violations_of(history, since=2.5) != []


def test_random_damage_is_found_whatever_it_is() -> None:
    random = Random(1)
    for _ in range(300):
        history = kept()
        place = random.randrange(len(history.given))
        damaged = history.given[place]
        match random.choice(["lose", "double", "move"]):
            case "lose":
                del history.given[place]
                expected = damaged.event.id != "e3"
            case "double":
                history.given.insert(random.randrange(len(history.given)), damaged)
                expected = True
            case "move":
                del history.given[place]
                line = (damaged.subscription, damaged.event.source, damaged.event.topic)
                rest = [(each.subscription, each.event.source, each.event.topic) for each in history.given]
                expected = line in rest[place:]
                history.given.append(damaged)
        assert bool(violations_of(history)) == expected
