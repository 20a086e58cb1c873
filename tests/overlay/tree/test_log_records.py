"""The log in memory and on disk, kept in batches, beside a list of all events."""

from __future__ import annotations

from random import Random

import pytest

from distributary.model import Event
from distributary.overlay.node import Message, Node, Store
from distributary.overlay.tree import event_log
from distributary.overlay.tree.event_log import KeptEvents, in_parts
from distributary.overlay.tree.log_records import LogRecords
from distributary.overlay.wire import event_size
from properties.examples import examples


def event(number: int, size: int = 0) -> Event:
    return Event(f"e{number}", document="x" * size)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_parts_have_so_many_bytes_at_most_or_one_event(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"parts {seed}")
    monkeypatch.setattr(event_log, "MOST_TOGETHER", 300)
    events = [event(number, random.choice([0, 10, 100, 290, 500])) for number in range(random.randint(0, 20))]
    parts = list(in_parts(events))
    assert [each for part in parts for each in events[part]] == events
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        size = sum(map(event_size, events[part]))
        assert size <= 300 or part.stop - part.start == 1
        if after is not None:
            assert size + event_size(events[after.start]) > 300, "they would have gone together"


@pytest.mark.parametrize("seed", range(examples(40)))
def test_the_latest_events_are_kept_within_their_room(seed: int) -> None:
    random = Random(f"kept {seed}")
    room, room_bytes = random.randint(1, 10), random.choice([100, 400, 10_000])
    kept = KeptEvents(room, room_bytes)
    everything: list[tuple[int, Event]] = []
    number = 0
    for _ in range(40):
        if random.random() < 0.1 and everything:
            last = random.randint(0, number)
            kept.cut(last)
            everything = [each for each in everything if each[0] <= last]
            number = max(last, kept.floor)
        else:
            batch = []
            for _ in range(random.randint(1, 4)):
                number += random.randint(1, 3)
                batch.append((number, event(number, random.choice([0, 50, 200]))))
            kept.extend(batch)
            everything += batch
        after = random.randint(kept.floor, number + 1) if number >= kept.floor else kept.floor
        assert kept.after(after) == tuple(each for each in everything if each[0] > after)
        left = kept.after(kept.floor)
        assert len(left) <= room + 3
        assert sum(event_size(each) for _, each in left) <= room_bytes + 4 * 300
        assert kept.last == (left[-1][0] if left else kept.floor)


class Disk:
    """What a node has stored."""

    def __init__(self) -> None:
        self.node = Node(1)
        self.stored: dict[str, Message] = {}

    def take(self) -> None:
        for effect in self.node.call(lambda: None, 0.0):
            assert isinstance(effect, Store)
            if effect.value is None:
                del self.stored[effect.name]  # KeyError for what was never there
            else:
                self.stored[effect.name] = effect.value


@pytest.mark.parametrize("seed", range(examples(60)))
def test_records_hold_the_log_through_any_changes_and_restarts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"records {seed}")
    monkeypatch.setattr(event_log, "MOST_TOGETHER", 400)
    disk = Disk()
    records = LogRecords(disk.node)
    log: list[tuple[int, Event]] = []
    floor = last = 0
    for _ in range(60):
        chance = random.random()
        if chance < 0.5:
            events = [
                event(last + 1 + place, random.choice([0, 150])) for place in range(random.randint(0, 4))
            ]
            records.keep(last, events)
            log += enumerate(events, last + 1)
            last += len(events)
        elif chance < 0.75:
            floor = random.randint(floor, last)
            records.forget(floor)
        elif chance < 0.85:
            last = random.randint(floor, last)
            log = [each for each in log if each[0] <= last]
            records.cut(last, [each for each in log if each[0] > floor])
        elif chance < 0.9:
            records.drop()
            log, floor = [], last
        disk.take()
        assert set(disk.stored) == records.names
        again = LogRecords(disk.node)
        assert again.restore(disk.stored, floor) == tuple(each for each in log if each[0] > floor)
        if chance > 0.95:
            records = again


def test_what_follows_a_torn_record_is_left_out() -> None:
    disk = Disk()
    records = LogRecords(disk.node)
    for number in range(1, 7):
        records.keep(number - 1, [event(number)])
    disk.take()
    del disk.stored["events 4"]
    again = LogRecords(disk.node)
    assert [number for number, _ in again.restore(disk.stored, 1)] == [2, 3]
    assert again.names == {"events 2", "events 3"}
