"""The table of claims: each claim with what our runs say of it, or why they say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from distributary_lab.claims import Claim, claims
from distributary_lab.evidence import evidence
from distributary_lab.experiment import Experiment, Outcome, Verdict
from distributary_lab.registry import experiment_of, experiments
from distributary_lab.results import Result, load, run_command
from distributary_lab.rows import shown

NO_EXPERIMENT = "no experiment yet"
NOT_RUN = "not run"

RECORD = (
    *("id", "document", "claim", "paper", "state", "ours", "ratio", "reason"),
    *("seed", "quick", "command", "deviation", "experiment"),
)
"""The fields of a line in JSON, in their order."""


@dataclass(frozen=True)
class ClaimLine:
    """One claim in the table."""

    claim: Claim
    state: str
    """An outcome, or 'not run', or 'no experiment yet'."""
    ours: str = ""
    ratio: float | None = None
    reason: str = ""
    seed: int | None = None
    quick: bool = False
    command: str = ""
    deviation: str = ""
    experiment: str = ""

    def to_record(self) -> dict[str, object]:
        """The line as JSON has it."""
        claim = self.claim
        told = asdict(self) | {
            "id": claim.id,
            "document": claim.seed,
            "claim": claim.text,
            "paper": claim.paper,
        }
        return {name: told[name] for name in RECORD} | {"experiment": self.experiment or None}


def results_in(out: Path) -> dict[str, Result]:
    """The results in a directory by experiment, of those that were run."""
    results = {each.name: load(each.name, out) for each in experiments()}
    return {name: result for name, result in results.items() if result is not None}


def lines(results: Mapping[str, Result]) -> list[ClaimLine]:
    """Every claim with what these results, by experiment, say."""
    return [_line(claim, experiment_of().get(claim.id), results) for claim in claims().values()]


def judge(experiment: Experiment, claim_id: str, result: Result) -> Verdict:
    """The check's verdict; "not reproduced" where there are no rows or the check fails on them."""
    if not result.rows:
        return Verdict(Outcome.NOT_REPRODUCED, "no rows", reason="no point of the experiment finished")
    try:
        verdict = experiment.answers[claim_id].check(evidence(experiment, claim_id, result.rows))
    except Exception as error:  # a check is code like any other, and the other claims are still worth seeing
        reason = f"the check could not deal with the rows: {type(error).__name__}: {error}"
        return Verdict(Outcome.NOT_REPRODUCED, "no verdict", reason=reason)
    if not result.failures:
        return verdict
    missing = f"{len(result.failures)} of {len(result.points)} points failed and are not part of this."
    return Verdict(verdict.outcome, verdict.ours, verdict.ratio, f"{verdict.reason} {missing}".strip())


def _line(claim: Claim, experiment: Experiment | None, results: Mapping[str, Result]) -> ClaimLine:
    if experiment is None:
        if claim.not_reproduced:
            return ClaimLine(claim, Outcome.NOT_REPRODUCED.value, reason=claim.not_reproduced)
        return ClaimLine(claim, NO_EXPERIMENT)
    deviation = experiment.deviation
    result = results.get(experiment.name)
    if result is None:
        again = run_command(claim.id, seed=1, quick=False)
        return ClaimLine(claim, NOT_RUN, command=again, deviation=deviation, experiment=experiment.name)
    verdict = judge(experiment, claim.id, result)
    return ClaimLine(
        claim,
        verdict.outcome.value,
        ours=shown(verdict.ours),
        ratio=verdict.ratio,
        reason=verdict.reason,
        seed=result.seed,
        quick=result.quick,
        command=result.command(name=claim.id),
        deviation=deviation,
        experiment=experiment.name,
    )
