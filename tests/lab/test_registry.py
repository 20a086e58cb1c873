"""The catalogue, the registry, and that they agree."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import pytest

from distributary.errors import DistributaryError
from distributary_lab import registry
from distributary_lab.claims import DOCUMENTS, Claim, claims
from distributary_lab.experiment import Experiment, Outcome, Verdict, point_random
from distributary_lab.registry import experiment_of, experiments, find
from distributary_lab.rows import mean, means, select

EVERY = pytest.mark.parametrize("experiment", experiments(), ids=lambda each: each.name)


def test_the_catalogue_has_every_figure_and_table_with_results() -> None:
    by_seed = [claim.seed for claim in claims().values()]
    assert [by_seed.count(seed) for seed in DOCUMENTS] == [5, 35, 7, 43, 4, 28]


def test_every_claim_says_what_and_what_the_paper_has() -> None:
    assert all(claim.text and claim.paper and claim.figure for claim in claims().values())


@EVERY
def test_an_experiment_answers_claims_that_are_known(experiment: Experiment) -> None:
    assert experiment.answers
    assert set(experiment.answers) <= set(claims())


@EVERY
def test_an_experiment_can_run_in_another_process(experiment: Experiment) -> None:
    assert pickle.loads(pickle.dumps(experiment.run)) is experiment.run
    assert pickle.loads(pickle.dumps([dict(point) for point in experiment.grid])) == list(experiment.grid)


@EVERY
def test_the_quick_grid_is_no_larger_than_the_full_one(experiment: Experiment) -> None:
    assert 0 < len(experiment.quick) <= len(experiment.grid)


@EVERY
def test_plots_and_points_use_plain_values(experiment: Experiment) -> None:
    for point in (*experiment.grid, *experiment.quick):
        assert all(isinstance(value, (int, float, str, bool)) for value in point.values())


def test_no_claim_has_both_an_experiment_and_a_reason_for_none() -> None:
    assert not [id for id in experiment_of() if claims()[id].not_reproduced]


def test_experiments_are_found_by_claim_name_document_or_all() -> None:
    (tree,) = find("000-fig6")
    assert tree.name == "topic-tree-size"
    assert find("topic-tree-size") == (tree,)
    assert tree in find("000")
    assert find("all") == experiments()


def test_what_cannot_be_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Claim("000-fig99", "what nobody measured", "shape", "its data is lost")
    monkeypatch.setattr(registry, "claims", lambda: {**claims(), lost.id: lost})
    with pytest.raises(DistributaryError, match="nothing to run for 000-fig99: its data is lost"):
        find("000-fig99")
    with pytest.raises(DistributaryError, match=r"no experiment 'figure 5'.*topic-tree-size"):
        find("figure 5")


def test_a_verdict_that_does_not_hold_needs_a_reason() -> None:
    assert Verdict.of(False, ours=1, reason="because").outcome is Outcome.DOES_NOT_HOLD
    with pytest.raises(DistributaryError, match="needs a reason"):
        Verdict.of(False, ours=1)


def test_an_answer_is_to_one_claim_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    (tree,) = find("topic-tree-size")

    def listed(*listing: Experiment) -> tuple[Experiment, ...]:
        monkeypatch.setattr(registry, "import_module", lambda name: SimpleNamespace(EXPERIMENTS=listing))
        monkeypatch.setattr(registry, "MODULES", {"given": ("module",)})
        return tuple(registry._listed())

    assert listed(tree) == (tree,)
    with pytest.raises(DistributaryError, match=r"answers \['beyond-nothing'\], not in claims.toml"):
        listed(replace(tree, answers={"beyond-nothing": tree.answers["000-fig6"]}))
    with pytest.raises(DistributaryError, match=r"\['000-fig6'\] is there already"):
        listed(tree, replace(tree, name="another"))


def test_a_point_draws_from_a_stream_of_its_own() -> None:
    drawn = {
        (seed, name, index): tuple(point_random(seed, name, index).integers(2**62, size=2).tolist())
        for seed in (1, 2)
        for name in ("a", "b")
        for index in range(3)
    }
    assert len(set(drawn.values())) == len(drawn)
    assert drawn[1, "a", 0] == tuple(point_random(1, "a", 0).integers(2**62, size=2).tolist())


def test_rows_are_selected_and_averaged() -> None:
    rows = [{"n": 10, "kind": "b", "hops": 1}, {"n": 2, "kind": "a", "hops": 2}, {"n": 2, "kind": "b"}]
    assert select(rows, n=2, kind="a") == [rows[1]]
    assert mean(rows, "hops") == 1.5
    assert list(means(rows, "hops", by="n").items()) == [(2, 2.0), (10, 1.0)]
    assert list(means(rows, "hops", by="kind")) == ["b", "a"]
    with pytest.raises(DistributaryError, match="no row has 'hops'"):
        mean(rows, "hops", n=3)
    with pytest.raises(DistributaryError, match="is to be a number"):
        mean(rows, "kind")
