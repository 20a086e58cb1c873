"""The judge of killed pipelines can say no: it tells what is lost, doubled or wrong, and a missed kill."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.phases import OUTPUTS, PHASES, Traces
from chaos.scenario import Aim, Kill, Report, aims, promises_broken
from chaos.supply import Supply
from chaos.verdict import Outputs, differences, expected
from distributary.store import SubscriptionStore, open_store

SUPPLY = Supply(5)
FILES = 6
VERSIONS = [(0, 1), (1, 1), (2, 2), (3, 3), (4, 3), (5, 3)]


@pytest.fixture
def store(tmp_path: Path) -> SubscriptionStore:
    store = open_store(tmp_path / "subscriptions", create=True)
    store.commit(SUPPLY.first_subscriptions())
    for number in range(2):
        SUPPLY.commit(store, number)
    return store


@pytest.fixture
def wanted(store: SubscriptionStore) -> Outputs:
    return expected(SUPPLY, FILES, store, VERSIONS)


def test_outputs_as_they_should_be_have_no_differences(wanted: Outputs) -> None:
    assert differences(deepcopy(wanted), wanted) == []
    assert all(getattr(wanted, one.name) for one in fields(Outputs))


@pytest.mark.parametrize("output", [one.name for one in fields(Outputs)])
def test_a_row_that_is_lost_doubled_or_wrong_is_told(wanted: Outputs, output: str) -> None:
    rows: list[tuple[Any, ...]] = getattr(wanted, output)
    lost, doubled, wrong = deepcopy(wanted), deepcopy(wanted), deepcopy(wanted)
    setattr(lost, output, rows[1:])
    setattr(doubled, output, [*rows, rows[-1]])
    setattr(wrong, output, [(*rows[0][:-1], "something else"), *rows[1:]])
    (told,) = differences(lost, wanted)
    assert told.startswith(f"{output}: 1 rows lost, such as")
    (told,) = differences(doubled, wanted)
    assert told.startswith(f"{output}: 1 rows doubled, such as")
    assert [told.split(",")[0] for told in differences(wrong, wanted)] == [
        f"{output}: 1 rows lost",
        f"{output}: 1 rows wrong",
    ]


def test_a_batch_that_is_appended_again_in_place_of_replaced_is_told(wanted: Outputs) -> None:
    found = deepcopy(wanted)
    again = [row for row in wanted.deliveries if row[0] == 3]
    found.deliveries += again
    (told,) = differences(found, wanted)
    assert told.startswith(f"deliveries: {len(again)} rows doubled")


def test_a_batch_that_is_delivered_again_under_another_id_is_told(wanted: Outputs) -> None:
    found = deepcopy(wanted)
    found.deliveries += [(7, *row[1:]) for row in wanted.deliveries if row[0] == 3]
    assert "wrong" in differences(found, wanted)[0]


def test_a_restart_that_forgets_tolerances_is_told(store: SubscriptionStore, wanted: Outputs) -> None:
    class Later(Supply):
        def lines(self, number: int) -> Any:
            return super().lines(number + 3)

    found = expected(SUPPLY, 3, store, VERSIONS[:3])
    after = expected(Later(SUPPLY.seed), 3, store, VERSIONS[3:])
    found.deliveries += after.deliveries
    assert any(told.startswith("deliveries") for told in differences(found, wanted))


def test_a_batch_matched_against_other_subscriptions_than_its_record_names_is_told(
    store: SubscriptionStore, wanted: Outputs
) -> None:
    found = expected(SUPPLY, FILES, store, [(batch, 1) for batch in range(FILES)])
    found.records = wanted.records
    assert any(told.startswith("deliveries") for told in differences(found, wanted))


def test_a_batch_done_again_with_newer_subscriptions_or_with_stale_ones_is_told() -> None:
    assert promises_broken(Report(bound={2: 2}, due=[(1, 2), (2, 3)]), VERSIONS) == []
    assert promises_broken(Report(bound={2: 1}), VERSIONS) == ["batch 2 was bound to version 1 and used 2"]
    (told,) = promises_broken(Report(due=[(1, 3)]), VERSIONS)
    assert told == "version 3 was there when batch 2 was planned, which used 2"


def test_a_kill_counts_only_if_the_process_died_of_it_with_work_left() -> None:
    assert Kill(Aim("matching"), "matching", 3, died=True, waiting=1).fired
    assert not Kill(Aim("matching"), "matching", 3, died=False, waiting=1).fired
    assert not Kill(Aim("matching"), "matching", 3, died=True, waiting=0).fired


def test_many_kills_are_aimed_at_every_phase_and_at_moments() -> None:
    planned = aims(Random(1), 60)
    assert {aim.phase for aim in planned} == {None, *PHASES}
    assert planned == aims(Random(1), 60)


@pytest.mark.parametrize("each", [False, True])
def test_phases_are_told_from_what_a_process_leaves_and_old_traces_do_not_count(
    tmp_path: Path, each: bool
) -> None:
    traces = Traces(tmp_path, 1000 * 10**9)

    def leave(name: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (2000, 2000))
        return traces.phase()

    def output(name: str) -> tuple[str, str]:
        if each and name == "deliveries":
            return "deliveries/each=ann/batch=4", "deliveries/_complete/4"
        return f"{name}/batch=4", f"{name}/batch=4/_SUCCESS"

    for before in range(4):
        leave(f"checkpoint/offsets/{before}")
        leave(f"checkpoint/commits/{before}")
    os.utime(tmp_path / "checkpoint/commits/3", (900, 900))
    seen = [traces.phase(), leave("checkpoint/offsets/4"), leave(f"subscriptions/bound/query/{4:020d}")]
    seen += [leave("deliveries/_staged/run/part-1.parquet"), leave("checkpoint/state/0/1/5.zip")]
    for name in OUTPUTS:
        begun, complete = output(name)
        (tmp_path / begun).mkdir(parents=True)
        os.utime(tmp_path / begun, (2000, 2000))
        seen += [traces.phase(), leave(complete)]
    seen += [leave("metrics/batches/4.json"), leave("checkpoint/commits/4")]
    assert tuple(seen) == PHASES

    (tmp_path / "checkpoint/commits/4").unlink()
    assert Traces(tmp_path, 9 * 10**18).phase() == "starting"
