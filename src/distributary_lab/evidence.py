"""What a check is shown of an experiment's rows: what was measured, and where.

Columns are of three kinds. *Measured* ones are named by the experiment. *Labels* say where a row belongs: the
values of its point, and those that the experiment names besides (a method, a period). Everything else, such
as a formula drawn beside a measurement, is for plots. A check may pick rows by labels, and average what was
measured; whatever else it asks for is an error, so no verdict rests on what the grid or a formula fixed.

The check of a document's claim is not shown what is ours either: the rows and columns that the experiment
says are ours count for claims that begin with `beyond-`.
"""

from __future__ import annotations

from typing import Any

from distributary.errors import DistributaryError
from distributary_lab.claims import BEYOND
from distributary_lab.experiment import Experiment, Rows


class EvidenceRow(dict[str, Any]):
    """A row as a check sees it: labels and measured columns, and an error for any other."""

    def __init__(self, row: dict[str, Any], labels: frozenset[str], measured: frozenset[str]) -> None:
        super().__init__({name: value for name, value in row.items() if name in labels or name in measured})
        self.measured = measured

    def __missing__(self, name: str) -> Any:
        raise DistributaryError(f"{name!r} is neither measured here nor a label, so no check can go by it")


def evidence(experiment: Experiment, claim_id: str, rows: Rows) -> list[EvidenceRow]:
    """The rows as the check of a claim may see them."""
    beyond = claim_id.startswith(BEYOND)
    measured = frozenset(experiment.measured) | frozenset(experiment.our_measured if beyond else ())
    fixed = {name for point in (*experiment.grid, *experiment.quick) for name in point}
    labels = (frozenset(experiment.labels) | fixed | set(experiment.settings)) - measured
    return [
        EvidenceRow(row, labels, measured)
        for row in rows
        if beyond or not any(row.get(label) in values for label, values in experiment.ours.items())
    ]
