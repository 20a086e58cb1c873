"""Plans of trees and placements, as `distributary plan` wrote them into a directory that the operator named.

A plan is `NAME.json` (`--json`); its picture is `NAME.svg` beside it (`--svg`), if there is one. They are
shown as they are, with before and after: nothing is planned here, and nothing is carried out.

Rules:

- A picture is shown as an image, never as a part of the page: scripts in it do not run.
- A file that is no plan, or is too long, is told with the reason; the others are shown.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

MOST_PLANS = 100
"""Plans that are listed, those that were written last."""
MOST_BYTES = 4 << 20
"""Of a plan, and of a picture."""
MOST_LINES = 200
"""Of a table."""


@dataclass(frozen=True)
class PlannedMove:
    """What goes elsewhere: a site below another parent, or an operator to another site."""

    to: str
    reason: str
    site: str | None = None
    operator: str | None = None
    origin: str | None = Field(alias="from", default=None)
    """None for a new one."""


@dataclass(frozen=True)
class ComparedPlan:
    """What another plan would cost, and which limits, or how many, it would break."""

    cost: FiniteFloat
    broken: int | tuple[str, ...] = 0


@dataclass(frozen=True)
class WrittenPlan:
    """What is shown of a plan."""

    goal: str
    before: FiniteFloat
    after: FiniteFloat
    moves: tuple[PlannedMove, ...]
    comparison: dict[str, ComparedPlan]


PLAN = TypeAdapter(WrittenPlan)


class PlanFile(NamedTuple):
    """A plan in the directory: its name, and when it was written."""

    name: str
    written: float


class ShownPlan(NamedTuple):
    """A plan as it is shown."""

    heading: str
    plan: WrittenPlan | None
    """None where there is none to show: the heading says why."""
    picture: str
    """The source of an image; empty where there is none."""


def listed(directory: Path) -> list[PlanFile]:
    """The plans of a directory, those that were written last first; none where it cannot be read."""
    found = []
    try:
        for path in directory.glob("*.json"):
            if path.is_file():
                found.append(PlanFile(path.stem, path.stat().st_mtime))
    except OSError:
        return []
    return sorted(found, key=lambda each: (-each.written, each.name))[:MOST_PLANS]


def read(directory: Path, file: PlanFile) -> ShownPlan:
    """A plan of a directory."""
    written = datetime.fromtimestamp(file.written, UTC).strftime("written %Y-%m-%d %H:%M:%S UTC")
    try:
        plan = PLAN.validate_json(_content(directory / f"{file.name}.json"))
    except (OSError, ValueError) as error:
        return ShownPlan(f"{file.name}.json is no plan as --json writes it: {_reason(error)}", None, "")
    try:
        drawn = _content(directory / f"{file.name}.svg")
    except (OSError, ValueError) as error:
        return ShownPlan(f"{written}; no picture, {file.name}.svg: {_reason(error)}", plan, "")
    return ShownPlan(written, plan, "data:image/svg+xml;base64," + b64encode(drawn).decode())


def _content(path: Path) -> bytes:
    """The bytes of a file; ValueError when there are too many."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    return content


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def move_rows(plan: WrittenPlan) -> list[dict[str, str]]:
    """The moves of a plan as lines of a table."""
    return [
        {
            "what": each.site or each.operator or "",
            "from": "new" if each.origin is None else each.origin,
            "to": each.to,
            "why": each.reason,
        }
        for each in plan.moves[:MOST_LINES]
    ]


def comparison_rows(plan: WrittenPlan) -> list[dict[str, str]]:
    """What it is compared with, itself first, as lines of a table."""
    rows = [{"plan": "before", "cost": number(plan.before), "breaks": ""}]
    rows += [{"plan": "planned", "cost": number(plan.after), "breaks": ""}]
    for name, other in list(plan.comparison.items())[:MOST_LINES]:
        broken = other.broken
        told = _limits(broken) if isinstance(broken, int) else "; ".join(broken)
        rows.append({"plan": name, "cost": number(other.cost), "breaks": told})
    return rows


def _limits(broken: int) -> str:
    """How many limits are broken.

    >>> _limits(0), _limits(1), _limits(2)
    ('', '1 limit', '2 limits')
    """
    return "" if not broken else "1 limit" if broken == 1 else f"{broken} limits"


def number(value: float) -> str:
    """A cost, with as many digits as tell something.

    >>> number(6264.8832), number(240.0), number(0.0123)
    ('6,264.88', '240', '0.0123')
    """
    if abs(value) >= 1:
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{value:.4g}"
