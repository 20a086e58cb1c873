"""The stock application's quotes and subscriptions, generated and from a file."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from distributary.errors import DistributaryError
from distributary.workloads import quote_files, stock_days


def test_the_pool_is_as_the_paper_describes_it() -> None:
    pool = stock_days.stock_days(1)
    assert len(pool) == 5453
    assert len({each.topic for each in pool}) == 5453
    assert len({each.stock for each in pool}) == 30
    deviations = [float(np.std(each.prices)) for each in pool]
    assert deviations == sorted(deviations)
    assert sorted({each.group for each in pool}) == list(range(10))
    assert all(each.prices.dtype == np.int64 and each.prices.min() >= 100 for each in pool)


def test_a_trace_has_a_value_a_minute_and_subscriptions_every_ten_on_average() -> None:
    trace = stock_days.trace(seed=2, sources=20, subscribers=100, minutes=240)
    assert len(trace.publications) == 20 * 240
    assert 0.9 < len(trace.requests) / (100 * 24) < 1.1
    for steps in (trace.publications, trace.requests):
        times = [each.time for each in steps]
        assert times == sorted(times)
    published = {each.event.topic for each in trace.publications}
    assert {str(each.subscription.topic).removesuffix("/#") for each in trace.requests} <= published


def test_no_subscription_races_a_value_of_its_source() -> None:
    trace = stock_days.trace(seed=3, sources=10, subscribers=30, minutes=60)
    offsets = {each.event.topic: each.time % 60 for each in trace.publications}
    for each in trace.requests:
        distance = (each.time - offsets[str(each.subscription.topic).removesuffix("/#")]) % 60
        assert min(distance, 60 - distance) >= stock_days.APART - 1e-6


def test_pareto_prefers_small_tolerances_and_calm_sources() -> None:
    def of(name: str) -> tuple[float, float]:
        trace = stock_days.trace(seed=4, tolerances=name, groups=name, sources=50, subscribers=80)
        group = {each.topic: each.group for each in stock_days.stock_days(1)}
        wanted = [each.subscription for each in trace.requests]
        return (
            fmean(dict(each.change or {})["price"] for each in wanted),
            fmean(group[str(each.topic).removesuffix("/#")] for each in wanted),
        )

    assert of("pareto")[0] < 0.3 * of("uniform")[0]
    assert of("pareto")[1] < 0.6 * of("uniform")[1]


def test_the_same_seed_gives_the_same_trace() -> None:
    one, other = (stock_days.trace(seed=5, sources=10, subscribers=5, minutes=9) for _ in range(2))
    assert one == other
    assert one != stock_days.trace(seed=6, sources=10, subscribers=5, minutes=9)


def test_a_file_is_read_and_its_bad_rows_are_set_aside_with_line_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text(
        "time,symbol,price\n"
        "2003-09-12T14:30,OTE,8.41\n"
        "2003-09-12T14:31:00+00:00,OTE,8.405\n"
        "noon,OTE,8.4\n"
        "2003-09-12T14:32,,8.4\n"
        "2003-09-12T14:33,A/B,8.4\n"
        "2003-09-12T14:34,OTE,NaN\n"
        "1063377180,EEE,12\n"
        "inf,EEE,12\n"
        "60\n"
    )
    found = quote_files.read(path)
    assert [(quote.symbol, quote.price) for quote in found.quotes] == [
        ("OTE", 841),
        ("OTE", 840),
        ("EEE", 1200),
    ]
    assert found.quotes[1].time - found.quotes[0].time == 60
    assert [each.line for each in found.rejected] == [4, 5, 6, 7, 9, 10]
    reasons = [str(each) for each in found.rejected]
    assert "time: neither seconds nor a time" in reasons[0]
    assert reasons[1] == "line 5: symbol: missing"
    assert "slash" in reasons[2]
    assert "price" in reasons[3]


def test_a_file_of_quotes_makes_a_run() -> None:
    lines = [
        "time,symbol,price",
        *(f"{60 * minute},{symbol},{minute % 7}" for minute in range(60) for symbol in "AB"),
    ]
    found = quote_files.read_lines(lines)
    trace = quote_files.trace(found.quotes, seed=1, subscribers=5)
    assert len(trace.publications) == 120
    assert trace.sources == 2
    assert {each.subscription.topic for each in trace.requests} <= {"quotes/file/A/#", "quotes/file/B/#"}


@pytest.mark.parametrize("lines", [["a,b", "1,2"], [], ["time,symbol", "1,2"]])
def test_a_file_without_the_columns_is_refused(lines: list[str]) -> None:
    with pytest.raises(DistributaryError, match="no column"):
        quote_files.read_lines(lines)


def test_a_file_that_is_not_there_and_one_without_quotes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="cannot read"):
        quote_files.read(tmp_path / "none.csv")
    with pytest.raises(DistributaryError, match="no quotes"):
        quote_files.trace([], seed=1)
