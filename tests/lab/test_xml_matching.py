"""The experiments of the XML thesis' matching: small runs, the truth by lxml, verdicts on made-up rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lxml import etree

from distributary.filters.path.filter import PathFilter
from distributary.matching.path.signature import (
    SignatureShape,
    document_items,
    document_signature,
    guaranteed_items,
    path_signature,
)
from distributary_lab.experiment import Experiment, Outcome, Row, Value
from distributary_lab.xml import false_positives as xml_false_positives
from distributary_lab.xml import matching as xml_matching
from distributary_lab.xml import signature_times as xml_signature_times
from distributary_lab.xml import space as xml_space
from distributary_lab.xml.paths import depth_of, documents, least_seconds, paths

ALL: tuple[Experiment, ...] = (
    *xml_matching.EXPERIMENTS,
    *xml_signature_times.EXPERIMENTS,
    *xml_space.EXPERIMENTS,
    *xml_false_positives.EXPERIMENTS,
)


def rows_at(experiment: Experiment, *points: dict[str, Value]) -> list[Row]:
    rows = []
    for number, point in enumerate(points):
        rows += [{**point, **row} for row in experiment.run(point, np.random.default_rng(number))]
    return rows


def verdicts(experiment: Experiment, rows: list[Row]) -> dict[str, Outcome]:
    return {claim: answer.check(rows).outcome for claim, answer in experiment.answers.items()}


def test_every_figure_of_the_chapter_is_answered() -> None:
    answered = {claim for each in ALL for claim in each.answers if claim.startswith("001")}
    assert answered == {f"001-fig3.{number}" for number in range(8, 20)}


def test_what_is_timed_runs_alone() -> None:
    timed = {each.name for each in ALL if each.alone}
    assert timed == {"xml-matching", "xml-signature-times"}


@pytest.mark.parametrize("experiment", ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("quick", [True, False])
def test_plots_draw_rows_that_some_point_gives(experiment: Experiment, quick: bool) -> None:
    points = experiment.points(quick)
    for answer in experiment.answers.values():
        for plot in answer.plots:
            named = {name: value for name, value in plot.where.items() if name in points[0]}
            assert any(all(point[name] == value for name, value in named.items()) for point in points)


def test_depth_is_that_of_the_deepest_linear_path() -> None:
    for path, depth in {
        "/a": 1,
        "/a/b[c/d]/e": 4,
        "/a[b]/c": 2,
        "/a[b or c/d/e]": 4,
        "/a[not(b/c)]/d": 3,
        "/a/b | /a/b/c": 3,
    }.items():
        assert depth_of(PathFilter.parse(path)) == depth


def test_paths_are_shared_out_among_the_types() -> None:
    made = paths(20, np.random.default_rng(1), types=xml_space.TYPES[:3])
    roots = [each.branches[0].steps[0].label for each in made]
    assert [roots.count(kind.root) for kind in xml_space.TYPES[:3]] == [7, 7, 6]


def test_the_clock_runs_an_action_at_least_as_often_as_asked() -> None:
    runs: list[int] = []
    assert least_seconds(lambda: runs.append(1), fewest=4, enough=0.0) >= 0
    assert len(runs) == 4


# Times


def test_matching_is_measured_after_all_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    (experiment,) = xml_matching.EXPERIMENTS
    for name, value in (
        ("FILTERS", (20, 40)),
        ("DEPTHS", (1, 3, 5)),
        ("PATHS_OF_A_DEPTH", 40),
        ("ROUNDS", 1),
    ):
        monkeypatch.setattr(xml_matching, name, value)
    common: dict[str, Value] = {"paths": xml_matching.TWIGS, "size": 2_000, "documents": 4, "repeat": 0}
    rows = rows_at(experiment, {**common, "sweep": "filters"}, {**common, "sweep": "depth"})
    assert [row["filters"] for row in rows] == [20, 40, 40, 40, 40]
    assert [row["depth"] for row in rows] == [7, 7, 1, 3, 5]
    assert rows[2]["depth_mean"] == 1.0
    assert all(float(row[name]) >= 0 for row in rows for name in xml_matching.LINES)
    assert set(verdicts(experiment, rows).values()) <= {Outcome.HOLDS, Outcome.DOES_NOT_HOLD}


def test_signatures_that_rule_out_a_match_stop_the_measurement() -> None:
    (tree,) = (parsed(event) for event in documents(1, np.random.default_rng(1)))
    automaton = xml_matching.PathAutomaton()
    automaton.add(0, PathFilter.parse(f"/{tree.labels[0]}"))
    match = xml_matching.Pairs(np.array([0], np.int32), np.array([0], np.int32))
    xml_matching._verify(automaton, match, [tree], match)
    with pytest.raises(AssertionError, match="rule out"):
        xml_matching._verify(automaton, match, [tree], xml_matching.Pairs.none())
    with pytest.raises(AssertionError, match="differ"):
        xml_matching._verify(automaton, xml_matching.Pairs.none(), [tree], match)


def matching_row(sweep: str, **values: Value) -> Row:
    row: Row = {"sweep": sweep, "filters": 400, "size": 4_000, "paths": "linear", "depth": 7, "exact": 1.0}
    row.update(values)
    row["automaton_parsing"] = float(row["automaton"]) + float(row.get("parsing", 0))
    return row


def test_the_exact_index_must_beat_the_automaton() -> None:
    fast = matching_row("depth", signatures=1.0, automaton=2.0)
    slow = matching_row("depth", signatures=1.0, automaton=0.5)
    assert xml_matching.check_exact([fast]).outcome is Outcome.HOLDS
    assert xml_matching.check_exact([fast, slow]).outcome is Outcome.DOES_NOT_HOLD


def test_signatures_are_timed_for_every_length_and_number_of_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    (experiment,) = xml_signature_times.EXPERIMENTS
    for name, value in (("DOCUMENTS", 5), ("PATHS", 9), ("ROUNDS", 1)):
        monkeypatch.setattr(xml_signature_times, name, value)
    rows = rows_at(
        experiment, *({"sweep": sweep, "preprocessed": 2, "repeat": 0} for sweep in ("length", "hashes"))
    )
    assert [row["length"] for row in rows[:9]] == list(xml_signature_times.LENGTHS)
    assert [row["hashes"] for row in rows[9:]] == list(xml_signature_times.HASHES)
    assert all(float(row["comparison"]) >= 0 for row in rows)
    assert set(verdicts(experiment, rows).values()) <= {Outcome.HOLDS, Outcome.DOES_NOT_HOLD}


def test_independent_hashes_make_a_signature_that_covers_what_it_holds() -> None:
    items = {"bib", "book", ("bib", "book")}
    for shape in (SignatureShape(64, 1), SignatureShape(64, 4)):
        whole = xml_signature_times._signed_afresh(items, shape)
        assert whole.covers(xml_signature_times._signed_afresh(["book"], shape))
        assert 1 <= whole.bits.bit_count() <= len(items) * shape.hashes


def timed_rows(sweep: str, values: tuple[int, ...], cost: Any) -> list[Row]:
    return [
        {"sweep": sweep, sweep: value, **dict.fromkeys(TIMED, float(cost(number)))}
        for number, value in enumerate(values)
    ]


TIMED = ("comparison", "preprocessing", "preprocessing_ours")


# Space


def test_signatures_are_as_long_as_the_rate_asks_for_and_keep_it() -> None:
    experiment = xml_space.EXPERIMENTS[0]
    rows = rows_at(experiment, {"documents": 60, "repeat": 0})
    assert {row["counted"] for row in rows} == {"pairs", "items", "document"}
    for row in rows:
        assert float(row["measured"]) <= float(row["rate"])
        assert float(row["kilobytes"]) == pytest.approx(3.68 * -(-int(row["length"]) // 8))


def test_space_conserved_falls_with_types_and_lower_rates() -> None:
    experiment = xml_space.EXPERIMENTS[1]
    rows = rows_at(experiment, *({"types": types, "paths": 90, "repeat": 0} for types in (1, 5, 9)))
    for row in rows:
        saved = float(row["path_bytes"]) - float(row["signature_bytes"])
        assert float(row["conserved"]) == pytest.approx(saved / float(row["path_bytes"]))


# False positives


def parsed(event: Any) -> Any:
    from distributary.filters.path.document import parse_document

    return parse_document(event.document)


@pytest.mark.parametrize("shape", [SignatureShape(16, 1), SignatureShape(64, 2), SignatureShape(256, 1)])
def test_false_positives_are_what_lxml_does_not_select(shape: SignatureShape) -> None:
    sample = xml_false_positives.Sample(12, np.random.default_rng(5))
    filters = paths(60, np.random.default_rng(6))
    row = sample.row(filters, shape)
    apart = falsely = inevitable = own = own_falsely = 0
    for number in range(12):
        tree = sample.trees[number]
        text = sample.batch.event(number).document or ""
        whole = etree.ElementTree(etree.fromstring(text.encode()))
        for each in filters:
            if whole.xpath(each.text):
                continue
            covered = document_signature(tree, *shape).covers(path_signature(each, *shape))
            same = each.text.startswith(("/" + tree.labels[0] + "/", "/" + tree.labels[0] + "["))
            apart += 1
            falsely += covered
            inevitable += guaranteed_items(each) <= document_items(tree)
            own += same
            own_falsely += same and covered
    assert row["rate"] == pytest.approx(falsely / apart)
    assert row["structural"] == pytest.approx(inevitable / apart)
    assert row["by_bits"] == pytest.approx((falsely - inevitable) / apart)
    assert row["own_type"] == pytest.approx(own_falsely / max(own, 1))


def test_every_sweep_gives_rows_that_its_check_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    (experiment,) = xml_false_positives.EXPERIMENTS
    monkeypatch.setattr(xml_false_positives, "PATHS", 90)
    monkeypatch.setattr(xml_false_positives, "FILTERS", (30, 60, 90))
    points = [{"sweep": sweep, "documents": 15, "repeat": 0} for sweep in xml_false_positives.SWEEPS]
    rows = rows_at(experiment, *points)  # type: ignore[arg-type]
    lengths = [float(row["rate"]) for row in rows if row["sweep"] == "length"]
    assert lengths[0] > 0.5 > lengths[-1]
    assert [row["filters"] for row in rows if row["sweep"] == "filters"] == [30, 60, 90]
    assert verdicts(experiment, rows)["001-fig3.16"] is Outcome.HOLDS


RATES = ("rate", "structural", "by_bits", "own_type", "estimate", "estimate_document", "pairs", "in_document")


def rated_rows(sweep: str, values: tuple[int, ...], rates: list[float], **more: float) -> list[Row]:
    return [
        {"sweep": sweep, sweep: value, "depth_mean": value, "asked": 3} | dict.fromkeys(RATES, rate) | more
        for value, rate in zip(values, rates, strict=True)
    ]
