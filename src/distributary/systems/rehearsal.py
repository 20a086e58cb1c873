"""A rehearsal: everything that nodes have kernels do, done once with made-up subscriptions and events.

    python -m distributary.systems.rehearsal

compiles the kernels that no cache has yet, and leaves a record of it (`kernel_use`). Several at a time wait
for one of them; `--jobs 2` has two processes share the work. What is asked of kernels is the same in every
system: who wants an event, among few or many; can its document be read; what is its signature. Which of them
are called depends on what filters say, on how many there are, and on how many events come together, so the
rehearsal has some of each; `tests/systems/test_rehearsal.py` finds what it lacks.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from threading import Thread
from typing import Any

from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription
from distributary.overlay.broker import ValuesByTopic
from distributary.systems.interests import InterestIndex
from distributary.systems.kernel_use import are_compiled, note_compiled
from distributary.systems.publishing import require_readable
from distributary.systems.residents import FEW_EVENTS, Residents

MANY = 2_500
"""Conditions, so many that an index is laid out otherwise than for few."""
TOGETHER = (1, 2 * FEW_EVENTS, 300, 2_100)
"""Events that come together."""

LOW = 10
"""By how much the process that compiles is nicer than the node."""

STANDARD_INPUT = 0

TOPICS = ("t/{0}", "t/*/b{0}", "t/{0}/#", "mqtt:t/+/b{0}/#", "mqtt:#")
CONDITIONS = (
    "price > {0}",
    "price between {0} and {0}.5 and volume < 1000",
    "name = 'n{0}' and price > 1",
    "name in ('n{0}', 'n1') or price < {0}",
    "name like 'n{0}%'",
    "name like '%x{0}_' and name ilike '%N{0}'",
    "name regexp 'n{0}+'",
    "not (price >= {0}) and name is not null",
    "name > 'n{0}' and volume is null",
    "at > timestamp '2026-05-01 00:00:00' and price = {0}",
    "day = date '2026-05-01' or day > '2026-05-{0}'",
    "price * 2 + {0} > volume",
    "lower(name) = 'n{0}'",
    "at > now() - interval '{0} hours'",
    "open = true and volume <> {0}",
    "array_contains(tags, 'n{0}')",
)
NARROW = (
    "name = 'n{0}' and price between {0} and {0}.5",
    "name = 'n{0}' and price > {0}.25 and price < {0}.75 and volume >= {0}",
    "name = 'n{0}' and day = 'd{0}'",
    "price = {0} or volume = {0}",
)
RANGES = (
    "price > {0}.25 and price < {0}.75",
    "volume between {0} and {0}.5 and price > 1",
)
"""Conditions that hold seldom, with equalities and without: indexes have ways of their own for them."""
PATHS = (
    "/a/b{0}",
    "//b[c]/d{0}",
    "/a/*/c[text() = 'x{0}']",
    "//c[. > {0}]",
    "/a[b[@k = '{0}'] and not(d)]",
    "b//c | //d{0}",
    "//b[c = {0} or d]//@k",
    "//b[contains(c, 'x{0}')]",
    "/a/b[{0}]/c",
    "//c/following-sibling::d{0}",
)
DOCUMENTS = (
    "<a><b1 k='1'>x</b1><b k='2'><c>7</c><d1>text</d1><c>x1</c></b></a>",
    "<a><b><c>1.5e3</c><c>0.00001</c><d/></b>&lt;<!-- no --><![CDATA[c]]></a>",
    "<!DOCTYPE a><a>&#233;<?p i?><b k='3'/></a>",
    "<a xmlns='urn:a' xmlns:z='urn:z'><z:b>\u00fc</z:b></a>",
)


def rehearse(first: int = 0) -> None:
    """Have every kernel called that a node may need; takes as long as those take that no cache has.

    Processes that begin with different parts compile different kernels: what one compiles, the others wait
    for (`kernel.compile`), so between them they take half as long.
    """
    parts = _parts(list(_events()))
    for number in range(len(parts)):
        parts[(first + number) % len(parts)]()


def _parts(events: Sequence[Event]) -> list[Callable[[], None]]:
    conditions = [partial(_ask_about, forms, events) for forms in (CONDITIONS, NARROW, RANGES)]
    return [partial(_read, events), *conditions, partial(_ask_everything, events)]


def _read(events: Sequence[Event]) -> None:
    """Documents, which have the most kernels: read, signed, and asked for by paths alone."""
    for event in islice(events, len(DOCUMENTS)):
        require_readable(event)
        _sign(event)
    paths = [form.format(number) for number in range(1, 5) for form in PATHS]
    _ask([Subscription(f"p{number}", "a", path=path) for number, path in enumerate(paths)], events)


def _ask_about(forms: Sequence[str], events: Sequence[Event]) -> None:
    _ask(list(_conditions(forms)), events)


def _ask_everything(events: Sequence[Event]) -> None:
    _ask(list(_asked(4 * len(CONDITIONS))), events)


def _ask(subscriptions: Sequence[Subscription], events: Sequence[Event]) -> None:
    """Ask who wants the events, as a node asks for its clients and for others, while subscriptions change."""
    interests: InterestIndex[Any, int] = InterestIndex()
    residents = Residents()
    for number, subscription in enumerate(subscriptions):
        last: ValuesByTopic = {"t/1": {"price": 1.0}}
        residents.put(subscription, last if subscription.change and number % 2 else None)
        interests.put(subscription.key, number, parse_filters(subscription))
        if number in (len(subscriptions) // 2, len(subscriptions) - 1):
            for event in events[:FEW_EVENTS]:
                interests.wanting(event)
                residents.firing(event)
    for together in TOGETHER:
        residents.wanted(events[:together])
    residents.remembered()
    for subscription in subscriptions[::3]:
        interests.remove(subscription.key)
        residents.remove(subscription.key)
    interests.wanting(events[0])
    residents.wanted(events)


def _sign(event: Event) -> None:
    from distributary.matching.path.scanned_items import scanned_items
    from distributary.matching.path.signature import SignatureShape

    for shape in (None, SignatureShape(256, 1)):
        scanned_items(event.document or "", shape)


def _asked(count: int) -> Iterator[Subscription]:
    """Subscriptions of every kind, alone and with others."""
    for number in range(count):
        topic, where, path = (
            forms[number % len(forms)].format(1 + number // len(forms))
            for forms in (TOPICS, CONDITIONS, PATHS)
        )
        change = {"price": 0.5 * number, "volume": 1.0} if number % 2 else {"price": 1.0}
        name = f"a{number % 7}"
        yield Subscription(f"t{number}", name, topic=topic)
        yield Subscription(f"w{number}", name, where=where)
        yield Subscription(f"p{number}", name, path=path)
        yield Subscription(f"c{number}", name, change=change)
        yield Subscription(f"tw{number}", name, topic=topic, where=where, change=change)
        yield Subscription(f"wp{number}", name, where=where, path=path)
        yield Subscription(f"tp{number}", name, topic=topic, path=path)
        yield Subscription(f"all{number}", name, topic=topic, where=where, path=path, change=change)


def _conditions(forms: Sequence[str]) -> Iterator[Subscription]:
    """Many conditions of these forms, alone and with a topic."""
    for number in range(MANY):
        where = forms[number % len(forms)].format(number)
        topic = f"t/{number}" if number % 3 == 0 else None
        yield Subscription(f"w{number}", f"a{number % 9}", topic=topic, where=where)


def _events() -> Iterator[Event]:
    for number in range(max(TOGETHER)):
        values: dict[str, Any] = {"price": 1 + number / 2, "volume": number, "name": f"n{number % 20}"}
        values |= {"at": "2026-05-01T12:00:00Z", "day": "2026-05-02", "open": number % 2 == 0}
        values["tags"] = [f"n{number}", "x"]
        document = DOCUMENTS[number % len(DOCUMENTS)] if number % 8 < len(DOCUMENTS) else None
        topic = None if number % 16 == 15 else f"t/{number % 30}/b{number % 3}"
        yield Event(f"e{number}", topic, values, document)


def main() -> int:
    """Rehearse, unless that was done; 1 where what was compiled cannot be kept."""
    parser = argparse.ArgumentParser(description="Compile the kernels that nodes need, once on a machine.")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work (default 1)")
    parser.add_argument("--begin", type=int, default=0, help=argparse.SUPPRESS)  # one of several jobs
    parser.add_argument(
        "--attended", action="store_true", help="end when standard input does, as with the process before it"
    )
    chosen = parser.parse_args()
    if chosen.attended:
        Thread(target=_end_with_input, daemon=True).start()
    if chosen.begin:
        rehearse(chosen.begin)
        return 0
    with suppress(OSError), ExitStack() as scope:
        lock = scope.enter_context(open(__file__, "rb"))
        with suppress(ImportError):  # no such locks on Windows
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        os.nice(LOW)
        if not are_compiled():
            others = [_beginning_with(1 + 3 * job) for job in range(chosen.jobs - 1)]
            rehearse()
            for other in others:  # what they would do now is done
                other.kill()
                other.communicate()
        return 0 if are_compiled() or note_compiled(_files()) else 1
    return 1


def _beginning_with(part: int) -> subprocess.Popen[bytes]:
    """Another process that rehearses, from this part on; it ends with this one."""
    command = [sys.executable, "-m", "distributary.systems.rehearsal", "--attended", "--begin", str(part)]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def _end_with_input() -> None:
    """End when whoever started this process has, however that ended: then its end of the pipe is closed."""
    while os.read(STANDARD_INPUT, 1):
        pass
    os._exit(1)


def _files() -> Iterator[str]:
    """The indexes of Numba's cache, of all kernels that have been called."""
    from numba.core.registry import CPUDispatcher

    for each in gc.get_objects():
        if isinstance(each, CPUDispatcher) and each.signatures:
            module = each.py_func.__module__ or ""  # Numba makes some without one
            if module.startswith("distributary."):
                yield str(each._cache._cache_file._index_path)


if __name__ == "__main__":
    sys.exit(main())
