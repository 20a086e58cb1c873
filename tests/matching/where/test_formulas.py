"""Formulas over bits give what conditions give row by row, whatever is chosen to be evaluated so."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from distributary import Event
from distributary.filters.where.evaluate import NOW, evaluate
from distributary.filters.where.expression import attributes_of
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.values import Instant
from distributary.matching.batch import EventBatch
from distributary.matching.where import bitsets, everywhere, groups
from distributary.matching.where.bitsets import WhereBitsets
from distributary.matching.where.formulas import WORD, Formulas, turn_around
from properties.oracle_values import attributes_of as attributes_of_row
from properties.oracle_values import random_row, table_of
from properties.random_expressions import random_expression


def random_filters(rng: random.Random, count: int) -> list[WhereFilter]:
    """Conditions of one leaf, and of some joined by AND, OR and NOT."""
    found = [filter for _ in range(count) if (filter := random_expression(rng)) is not None]
    joined = []
    for _ in range(count // 3):
        one, other, third = (f"({rng.choice(found).text})" for _ in range(3))
        joined.append(
            WhereFilter.parse(
                rng.choice(
                    [
                        f"{one} and not {other}",
                        f"not ({one} or {other} and {third})",
                        f"({one} or not {other}) and ({other} or {third})",
                        f"{one} or true and {other}",
                        f"not ({one} and null)",
                        f"({one} and {other}) is unknown or {third}",
                        f"(({one} or {other}) is not unknown) is not false",
                        f"not ({one} is not true) and ({other} is not false or {third})",
                        f"{one} and ({other} or ({third} and ({one} is false or ({other} and {third}))))",
                    ]
                )
            )
        )
    return [*found, *joined]


def expected_rows(batch: EventBatch, filter: WhereFilter) -> list[int]:
    """The rows for which a condition is true, one by one."""
    expression = filter.expression
    columns = [(name, batch.column(name)) for name in attributes_of(expression)]
    found = []
    for row in range(batch.rows):
        values = {name: column.value(row) for name, column in columns if column is not None}
        if evaluate(expression, {**values, NOW: Instant(batch.arrival(row))}) is True:
            found.append(row)
    return found


@pytest.mark.parametrize(("seed", "size"), [(0, 1), (1, 63), (2, 64), (3, 65), (4, 130)])
@pytest.mark.parametrize("as_table", [True, False])
def test_formulas_hold_where_their_conditions_are_true(seed, size, as_table):
    rng = random.Random(seed)
    filters = random_filters(rng, 70)
    given = [random_row(rng) for _ in range(size)]
    events = [Event(f"e{number}", "A/B", attributes_of_row(row)) for number, row in enumerate(given)]
    batch = EventBatch.from_table(table_of(given)) if as_table else EventBatch.from_events(events)
    formulas = Formulas([filter.expression for filter in filters])
    positions = np.arange(len(filters), dtype=np.int32)[::-1].copy()
    pairs, left = formulas.pairs(batch, positions)
    assert len(left) < len(filters) / 2, "most formulas are open, so this shows little"
    assert (np.diff(pairs.rows) >= 0).all()
    for position, filter in zip(positions.tolist(), filters, strict=True):
        found = pairs.rows[pairs.slots == position].tolist()
        wanted = [] if position in left else expected_rows(batch, filter)
        assert found == wanted, (seed, filter.text)


def test_every_bound_is_a_cut_between_the_values_on_its_two_sides():
    bounds = [-1.5, 0, 2, 7]
    operators = ["<", "<=", "=", "<>", ">", ">="]
    texts = [
        f"{no}(a {operator} {bound})" for bound in bounds for operator in operators for no in ("", "not ")
    ]
    texts += [f"{no}(a between {low} and {high})" for low in bounds for high in bounds for no in ("", "not ")]
    texts += ["a = 'm'", "not (a < 'm')", "a > 'm'", "not (a <> 'm')", "a like 'm%'", "not (a like 'm%')"]
    texts += ["a is null", "a is not null", "a is true", "a is not false", "a", "not a"]
    numbers = [
        value for bound in bounds for value in (np.nextafter(bound, -9), float(bound), np.nextafter(bound, 9))
    ]
    values = [*numbers, float("inf"), float("-inf"), float("nan"), -0.0, 2, "", "l", "m", "m\0", "mm", "n"]
    values += [True, False, None, (1,), b"m"]
    batch = EventBatch.from_events(
        [Event(str(at), attributes={"a": value}) for at, value in enumerate(values)]
    )
    filters = [WhereFilter.parse(text) for text in texts]
    pairs, left = Formulas([filter.expression for filter in filters]).pairs(
        batch, np.arange(len(filters), dtype=np.int32)
    )
    assert not len(left)
    for position, filter in enumerate(filters):
        assert pairs.rows[pairs.slots == position].tolist() == expected_rows(batch, filter), filter.text


@pytest.mark.parametrize("seed", range(3))
def test_turning_around_exchanges_rows_and_columns(seed):
    words = np.random.default_rng(seed).integers(0, 1 << 63, 3 * WORD, np.uint64)
    turned = words.copy()
    turn_around(turned, WORD)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(3, WORD, WORD)
    found = np.unpackbits(turned.view(np.uint8), bitorder="little").reshape(3, WORD, WORD)
    assert (found[1] == bits[1].T).all()
    assert (found[[0, 2]] == bits[[0, 2]]).all()


def found_pairs(index: WhereBitsets, batch: EventBatch) -> list[tuple[int, int]]:
    found = index.match_batch(batch)
    return sorted(zip(found.rows.tolist(), found.slots.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_chosen_makes_no_difference(seed, monkeypatch):
    """Any conditions may be evaluated everywhere, in small parts, and be searched for again."""
    rng = random.Random(seed)
    monkeypatch.setattr(everywhere, "TOGETHER", 8)
    monkeypatch.setattr(everywhere, "MOST_OF_ALL", rng.choice([0, 1 << 14]))
    filters = random_filters(rng, 60)
    batch = EventBatch.from_table(table_of([random_row(rng) for _ in range(70)]))
    expected = sorted(
        (row, slot) for slot, filter in enumerate(filters) for row in expected_rows(batch, filter)
    )
    index = WhereBitsets()
    index.add_many(range(len(filters)), filters)
    ((_, segment),) = index.segments()
    for _ in range(6):
        assert found_pairs(index, batch) == expected
        some = rng.sample(range(len(filters)), rng.randrange(len(filters) // 4))
        segment.memo.choose(np.array(some, np.int32))
    assert segment.memo.chosen.count > len(filters) / 4


def sparse_and_dense() -> tuple[WhereBitsets, pa.Table, pa.Table]:
    """Conditions that mostly hold for the second table and hardly ever for the first."""
    index = WhereBitsets()
    index.add_many(range(80), [WhereFilter.parse(f"a >= {100 + n} and b >= {n % 7}") for n in range(80)])
    a, b = np.arange(3000) % 150, np.arange(3000) % 11
    ids = [str(row) for row in range(3000)]
    return index, pa.table({"id": ids, "a": a % 101, "b": b}), pa.table({"id": ids, "a": a + 100, "b": b})


def expected_of(table: pa.Table) -> list[tuple[int, int]]:
    a, b = table["a"].to_numpy()[:, None], table["b"].to_numpy()[:, None]
    found = np.nonzero((a >= 100 + np.arange(80)) & (b >= np.arange(80) % 7))
    return list(zip(*(array.tolist() for array in found), strict=True))


@pytest.mark.parametrize("size", [3000, 64])
def test_where_most_hold_often_all_are_evaluated_until_few_hold_again(size):
    index, sparse, dense = sparse_and_dense()
    seen = []
    for table in (sparse, dense, dense, sparse, sparse):
        piece = table.slice(99, size).combine_chunks()
        assert found_pairs(index, EventBatch.from_table(piece)) == expected_of(piece)
        ((_, segment),) = index.segments()
        seen.append(segment.memo.chosen.are_all)
    assert seen == [False, True, True, False, False]


def test_batches_too_small_to_tell_change_nothing():
    index, _, dense = sparse_and_dense()
    few = dense.slice(140, bitsets.SMALL - 1).combine_chunks()
    assert found_pairs(index, EventBatch.from_table(few)) == expected_of(few)
    ((_, segment),) = index.segments()
    assert segment.memo.chosen.count == 0


def test_small_batches_that_pass_many_hard_conditions_have_all_evaluated(monkeypatch):
    monkeypatch.setattr(everywhere, "HARD", 0)
    index, _, dense = sparse_and_dense()
    for start in range(100, 100 + 5 * everywhere.DENSE_EVENTS, 5):
        few = dense.slice(start, 5).combine_chunks()
        assert found_pairs(index, EventBatch.from_table(few)) == expected_of(few)
    ((_, segment),) = index.segments()
    assert segment.memo.chosen.are_all


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("all_chosen", [True, False])
def test_one_event_by_formulas_is_what_conditions_say(seed, all_chosen, monkeypatch):
    """Single events and batches of a few rows, when all conditions are chosen and when only some are."""
    rng = random.Random(seed)
    monkeypatch.setattr(bitsets, "FEW_OPEN", 0)
    monkeypatch.setattr(everywhere, "HARD", 0)
    monkeypatch.setattr(everywhere, "MOST_OF_ALL", 1 << 14 if all_chosen else 0)
    monkeypatch.setattr(groups, "KEPT", rng.choice([1, 2000, 1 << 22]))
    filters = random_filters(rng, 70)
    given = [random_row(rng) for _ in range(25)]
    events = [
        Event(f"e{number}", "A/B", attributes_of_row(row), arrival=10**18 + number)
        for number, row in enumerate(given)
    ]
    index = WhereBitsets()
    index.add_many(range(len(filters)), filters)
    ((_, segment),) = index.segments()
    expected = [[slot for slot, each in enumerate(filters) if each.matches(event)] for event in events]
    if all_chosen:
        index.match(events[0])
        segment.memo.choose(np.arange(len(filters), dtype=np.int32))
    for _ in range(2):  # the second time some values are remembered
        assert [index.match(event) for event in events] == expected
        pairs = [(row, slot) for row, slots in enumerate(expected) for slot in slots]
        assert found_pairs(index, EventBatch.from_events(events)) == pairs
    assert segment.memo.chosen.are_all == all_chosen
    table = table_of(given)
    by_row = found_pairs(index, EventBatch.from_table(table))
    monkeypatch.setattr(everywhere, "BY_ROW", 0)
    assert found_pairs(index, EventBatch.from_table(table)) == by_row


@pytest.mark.parametrize("size", [1, 2, 31, 32, 63, 64, 65, 127, 128, 129])
@pytest.mark.parametrize("as_table", [True, False])
def test_rows_by_themselves_and_columns_agree_at_the_border_between_them(size, as_table, monkeypatch):
    rng = random.Random(size)
    monkeypatch.setattr(everywhere, "HARD", 0)
    filters = random_filters(rng, 50)
    given = [random_row(rng) for _ in range(size)]
    events = [Event(f"e{number}", "A/B", attributes_of_row(row)) for number, row in enumerate(given)]
    batch = EventBatch.from_table(table_of(given)) if as_table else EventBatch.from_events(events)
    index = WhereBitsets()
    index.add_many(range(len(filters)), filters)
    index.match(Event("e"))
    ((_, segment),) = index.segments()
    segment.memo.choose(np.arange(len(filters), dtype=np.int32))
    expected = sorted(
        (row, slot) for slot, filter in enumerate(filters) for row in expected_rows(batch, filter)
    )
    assert found_pairs(index, batch) == expected
    alone = [(row, slot) for row, event in enumerate(events) for slot in index.match(event)]
    assert as_table or alone == expected


def test_values_that_python_takes_for_equal_are_remembered_apart(monkeypatch):
    monkeypatch.setattr(bitsets, "SOME", 1)
    monkeypatch.setattr(everywhere, "HARD", 0)
    texts = ["1", "1.0", "true", "0", "0.0", "-0.0", "false"]
    index = WhereBitsets()
    index.add_many(range(7), [WhereFilter.parse(f"cast(a as text) = '{text}'") for text in texts])
    index.match(Event("e", attributes={"a": 1}))
    ((_, segment),) = index.segments()
    segment.memo.choose(np.arange(7, dtype=np.int32))
    values = [1, 1.0, True, 0, 0.0, -0.0, False]
    for _ in range(2):
        assert [index.match(Event("e", attributes={"a": value})) for value in values] == [
            [n] for n in range(7)
        ]


@pytest.mark.parametrize("hard", [True, False])
def test_events_that_pass_many_conditions_have_all_evaluated(hard, monkeypatch):
    """But where constraints decide all of them, searching is faster."""
    monkeypatch.setattr(everywhere, "HARD", 0 if hard else 1)
    index, _, dense = sparse_and_dense()
    expected = expected_of(dense)
    for row in range(140, 150):
        event = Event("e", attributes={"a": int(dense["a"][row]), "b": int(dense["b"][row])})
        assert index.match(event) == [slot for at, slot in expected if at == row]
    ((_, segment),) = index.segments()
    assert segment.memo.chosen.are_all == hard
    index.remove(3)
    assert 3 not in index.match(event)


def test_removed_conditions_are_not_found_by_formulas(monkeypatch):
    monkeypatch.setattr(everywhere, "HARD", 0)
    index, _, dense = sparse_and_dense()
    piece = dense.slice(100, 64).combine_chunks()
    for _ in range(2):
        found_pairs(index, EventBatch.from_table(piece))
    index.remove(3)
    expected = [(row, slot) for row, slot in expected_of(piece) if slot != 3]
    assert found_pairs(index, EventBatch.from_table(piece)) == expected
    few = piece.slice(0, 20).combine_chunks()
    assert found_pairs(index, EventBatch.from_table(few)) == [pair for pair in expected if pair[0] < 20]


def test_what_looks_at_the_clock_is_not_remembered(monkeypatch):
    monkeypatch.setattr(bitsets, "SOME", 1)
    monkeypatch.setattr(everywhere, "HARD", 0)
    index = WhereBitsets()
    texts = ["at > now()", "hour(now()) = 0", "at > now() and at is not null"]
    index.add_many(range(3), [WhereFilter.parse(text) for text in texts])
    hour = 3600 * 10**9
    events = [Event("e", attributes={"at": "1970-01-01T01:00:00Z"}, arrival=at) for at in (0, hour, 2 * hour)]
    index.match(events[0])
    ((_, segment),) = index.segments()
    segment.memo.choose(np.arange(3, dtype=np.int32))
    for _ in range(2):
        assert [index.match(event) for event in events] == [[0, 1, 2], [], []]
