"""What the comparison with peers promises: same answers or an error, and missing tools named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.peers import duck, flights, rules, toolchains, topics
from bench.peers.exchange import Answer, FailedError, Pairs, answered, written
from distributary.filters.where.filter import WhereFilter

EVENTS, RULES = np.array([0, 0, 2]), np.array([7, 1, 3])


def test_a_digest_does_not_depend_on_the_order_of_pairs_and_tells_others_apart() -> None:
    pairs = Pairs(EVENTS, RULES)
    assert pairs.digest(3) == Pairs(EVENTS[::-1], RULES[::-1]).digest(3)
    assert pairs.digest(2) == Pairs(EVENTS[:2], RULES[:2]).digest(3)
    assert pairs.digest(3) != Pairs(EVENTS, RULES[::-1]).digest(3)


def test_an_answer_of_other_pairs_is_refused() -> None:
    pairs = Pairs(EVENTS, RULES)
    right = Answer(0, 3, [2, 0, 1], pairs.digest(3)[1], [1.0, 9.0, 2.0])
    right.check(pairs, "peer")
    assert right.microseconds == 2
    with pytest.raises(AssertionError, match="peer disagrees: 3 matches of 3 events, ours 2"):
        right.check(Pairs(EVENTS[:2], RULES[:2]), "peer")
    with pytest.raises(AssertionError, match="peer disagrees"):
        right.check(Pairs(EVENTS, RULES[::-1]), "peer")


def test_a_program_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    given = written(tmp_path, "rules.json", ["{}"])
    with pytest.raises(FailedError, match="no such rule"):
        answered(("sh", "-c", "echo no such rule >&2; exit 1"), given, given, 1.0)


@pytest.mark.parametrize(
    ("build", "tool"), [(toolchains.go, "go"), (toolchains.maven, "mvn"), (toolchains.cargo, "cargo")]
)
def test_a_missing_tool_is_named(build: object, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(toolchains.MissingError, match=f"no {tool}"):
        build("nats", "module")  # type: ignore[operator]


def test_all_rules_over_flights_are_conditions_of_ours_and_every_form_comes() -> None:
    drawn = flights.rules(500, seed=3)
    assert len({WhereFilter.parse(rule.ours) for rule in drawn}) > 400
    assert drawn == flights.rules(500, seed=3)
    for construct in (
        "between",
        "not in",
        "regexp",
        "is null",
        "case when",
        "interval",
        "arr_delay > dep_delay",
        "escape",
        "not ilike",
        "not regexp",
        "is unknown",
        "is not distinct from",
        "> null",
        "coalesce",
        "nullif",
        "::date",
        "decimal(10, 2)",
        "now()",
    ):
        assert any(construct in rule.ours for rule in drawn), construct


def test_duckdb_is_asked_rule_by_rule() -> None:
    table = pa.table({"id": ["a", "b", "c"], "n": [1, 2, None]})
    answer = duck.answered(["n = 1", "n is null", "n > 0"], table, rounds=1)
    answer.check(Pairs(np.array([0, 2, 0, 1]), np.array([0, 1, 2, 2])), "DuckDB")
    assert list(answer.counts) == [2, 1, 1]


def test_rules_are_written_in_the_languages_of_the_peers() -> None:
    workload = rules.alternatives(1, 1, 0)
    lines = {asked.peer: next(iter(asked.rules())) for asked in workload.peers}
    assert " in (" in str(workload.subscriptions[0].where)
    assert '"anything-but"' in lines["ruler"]
    assert " in [" in lines["atree"]
    assert '"in"' in lines["esper"]
    subjects = topics.workload(2, 2, 0).peers[0]
    assert all("." in line and "/" not in line for line in subjects.rules())
