"""The rules of the lab (docs/lab.md): where verdicts come from, and that each can change."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from distributary.errors import DistributaryError
from distributary_lab import words
from distributary_lab.evidence import evidence
from distributary_lab.experiment import Experiment, Outcome
from distributary_lab.registry import experiment_of, experiments
from distributary_lab.rows import mean, means
from lab.cases import CASES
from lab.disturbances import Case
from lab.recording import recorded
from lab.tiny import TINY

EVERY = pytest.mark.parametrize("experiment", experiments(), ids=lambda each: each.name)
CLAIM = pytest.mark.parametrize("claim_id", list(experiment_of()))

UNITS = {100, 1000}
"""To write per cent and thousands."""


# Thresholds


def functions_of(check: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """A check and the functions of the lab's experiments that it calls, however deep."""
    seen: set[int] = set()
    pending: list[Any] = [check]
    while pending:
        each = pending.pop()
        if isinstance(each, partial):
            pending += [each.func, *each.args, *each.keywords.values()]
            continue
        package = getattr(each, "__module__", "").split(".")
        if not inspect.isfunction(each) or id(each) in seen or package[0] != "distributary_lab":
            continue
        if len(package) < 3:  # the lab's own tools: rows, words
            continue
        if "formula" in each.__name__ or each.__name__.startswith(("paper", "predicted")):
            continue  # what the document says, as a function
        seen.add(id(each))
        yield each
        names = each.__code__.co_names + tuple(
            name for code in each.__code__.co_consts if inspect.iscode(code) for name in code.co_names
        )
        pending += [value for name in names if (value := _found(each.__globals__, name)) is not None]


def _found(space: dict[str, Any], name: str) -> Any:
    """What a name means in a module, or an attribute of one of the modules that it imports."""
    if name in space:
        return space[name]
    modules = (value for value in space.values() if inspect.ismodule(value))
    return next((vars(module)[name] for module in modules if name in vars(module)), None)


def thresholds_in(source: str, space: dict[str, Any]) -> list[str]:
    """Numbers in a function that may decide something and are neither the paper's nor the table's.

    Not looked at are texts, and what rows are picked by (keyword arguments, subscripts, slices).
    """
    (tree,) = ast.parse(textwrap.dedent(source)).body
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    shared = {name: value for name, value in space.items() if name not in own}
    return [problem for node in ast.iter_child_nodes(tree) for problem in _numbers(node, shared, False)]


def _numbers(node: ast.AST, space: dict[str, Any], compared: bool) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr | ast.keyword | ast.Subscript | ast.arguments):
        return
    compared = compared or isinstance(node, ast.Compare)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        allowed = {0, 1} if compared else {0, 1, 2} | UNITS
        if not isinstance(node.value, bool) and node.value not in allowed:
            yield repr(node.value)
    name, value = "", None
    if isinstance(node, ast.Name):
        name, value = node.id, space.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        name, value = node.attr, getattr(space.get(node.value.id), node.attr, None)
    plain = isinstance(value, int | float) and value not in (0, 1)
    if plain and not name.startswith(("PAPER", "CLAIMED")) and not hasattr(words, name):
        yield f"{name} = {value!r}"
    for child in ast.iter_child_nodes(node):
        yield from _numbers(child, space, compared)


@CLAIM
def test_checks_judge_by_the_table_of_words_and_the_paper_s_numbers_alone(claim_id: str) -> None:
    experiment = experiment_of()[claim_id]
    found = {
        f"{each.__module__}.{each.__name__}": problems
        for each in functions_of(experiment.answers[claim_id].check)
        if (problems := thresholds_in(inspect.getsource(each), each.__globals__))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return cost < 1.3 * best", ["1.3"]),
        ("return cost < MOST", ["MOST = 7"]),
        ("return cost < PAPER_MOST and words.near(cost, NEAR)", []),
        ("bound = 3 * best\n    return cost < bound", ["3"]),
        ("return mean(rows, 'cost', share=0.25) < cost[50] and f'{cost / 12}'", []),
    ],
)
def test_a_threshold_of_a_check_s_own_is_found(body: str, found: list[str]) -> None:
    space = {"MOST": 7, "PAPER_MOST": 60, "NEAR": words.NEAR, "words": words}
    assert thresholds_in(f"def check(rows):\n    {body}\n", space) == found


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("equal", f"within {100 * (words.EQUAL - 1):.0f} %"),
        ("near", f"within {100 * (words.NEAR - 1):.0f} %"),
        ("about so much", f"within a factor of {words.GIVEN:g}"),
        ("comparable", f"within a factor of {words.COMPARABLE:g}"),
        ("flat", f"at most {words.FLAT:g}"),
        ("much", f"by a factor of {words.MUCH:g} or more"),
        ("orders of magnitude", f"by a factor of {words.ORDERS:g} or more"),
        ("linear", f"give or take {words.EXPONENT:g}, that explains {100 * words.FIT:.0f} %"),
    ],
)
def test_the_docs_have_the_numbers_of_the_table(word: str, said: str) -> None:
    page = (Path(__file__).parents[2] / "docs/lab.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith((f"| {word},", f"| {word} |"))]
    assert said in line


# Evidence


@EVERY
def test_an_experiment_names_what_it_measures_and_what_it_ran(experiment: Experiment) -> None:
    fixed = {name for point in experiment.grid for name in point}
    assert experiment.measured
    assert not set(experiment.measured) & fixed
    columns = {name for row in recorded(experiment.name) for name in row}
    assert {*experiment.measured, *experiment.our_measured, *experiment.labels, *experiment.ours} <= columns


def test_a_check_cannot_go_by_what_the_grid_fixed_or_a_formula_made() -> None:
    rows = [{"size": 2, "name": "a", "draw": 0.5, "rank": 0, "formula": 1.0}]
    (row,) = shown = evidence(replace(TINY, measured=("draw",), labels=("rank",)), "000-fig5", rows)
    assert mean(shown, "draw", size=2) == 0.5
    assert means(shown, "draw", by="rank") == {0: 0.5}
    with pytest.raises(DistributaryError, match="'size' is not measured"):
        mean(shown, "size")
    with pytest.raises(DistributaryError, match="no row has 'formula'"):
        mean(shown, "formula")
    with pytest.raises(DistributaryError, match="'formula' is neither measured"):
        row["formula"]


def test_a_document_s_claim_does_not_see_what_is_ours() -> None:
    tiny = replace(TINY, labels=(), our_measured=("rank",), ours={"name": ("b",)})
    rows = [{"size": 1, "name": name, "draw": 0.5, "rank": 1} for name in ("a", "b")]
    assert [row["name"] for row in evidence(tiny, "000-fig5", rows)] == ["a"]
    assert "rank" not in evidence(tiny, "000-fig5", rows)[0]
    assert [row["rank"] for row in evidence(tiny, "beyond-tiny", rows)] == [1, 1]


# Verdicts that can change


def outcome(claim_id: str, case: Case, disturbance: str | None = None) -> Outcome:
    """The verdict on the recorded rows as the case has them, disturbed or not."""
    experiment = experiment_of()[claim_id]
    rows = recorded(experiment.name)
    for change in (*case.holds, *([case.fails[disturbance]] if disturbance else [])):
        rows = change(rows)
    return experiment.answers[claim_id].check(evidence(experiment, claim_id, rows)).outcome


@CLAIM
def test_every_verdict_changes_with_what_was_measured(claim_id: str) -> None:
    case = CASES[claim_id]
    assert case.fails
    assert outcome(claim_id, case) is Outcome.HOLDS
    outcomes = {name: outcome(claim_id, case, name) for name in case.fails}
    assert outcomes == dict.fromkeys(case.fails, Outcome.DOES_NOT_HOLD)


def test_every_case_is_of_a_claim_that_there_is() -> None:
    assert set(CASES) <= set(experiment_of())
