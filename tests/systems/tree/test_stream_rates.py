"""The rates of streams that come in at a broker, over a window."""

from __future__ import annotations

from distributary.model import Event
from distributary.systems.tree.settings import Gauges
from distributary.systems.tree.stream_rates import StreamRates


def test_streams_that_nothing_came_of_for_a_window_are_forgotten() -> None:
    rates = StreamRates(Gauges(stream=lambda event: event.topic or "", window=10.0), lambda event: True)
    for second in range(100):
        rates.note(Event(f"e{second}", f"sensors/{second}"), second)
        rates.note(Event(f"f{second}", "news"), second)
    rates.note(Event("last", "sensors/95"), 99)
    told = dict(rates.own(99))
    assert sorted(told) == ["news", *(f"sensors/{second}" for second in range(89, 100))]
    assert told["news"] == 1.1
    assert told["sensors/95"] == 0.2
    assert len(rates._counts) == len(rates._wanted) == len(told)
