"""The two tabs for operators: pipelines on Spark, and plans before and after.

Each looks again every few seconds, and shows nothing to whoever is no operator any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from nicegui import ui

from distributary.edge.console import plans
from distributary.edge.console.pipelines import (
    NUMBERS,
    WatchedPipeline,
    WatchedPipelines,
    batch_rows,
    texts,
)
from distributary.edge.console.plans import PlanFile, ShownPlan

LINE = "line"
EVERY = 1.0
"""Seconds between two looks at what pipelines have told."""
EVERY_PLANS = 3.0
"""Seconds between two looks into the directory of plans."""
NO_PIPELINES = "No pipeline is named: start the broker with --pipeline URL, where its [status] is told."
NO_DIRECTORY = "No plans are named: start the broker with --plans DIR, where distributary plan writes them."
NO_PLANS = "There is no plan yet in {}: distributary plan FILE --json {}/NAME.json --svg {}/NAME.svg"
PICTURE_WIDTH = "min-width: 640px; width: 100%; max-width: 960px"
"""A picture keeps a width at which it can be read: on a narrow page it is moved from side to side."""


def pipelines_tab(
    watched: WatchedPipelines, allowed: Callable[[], bool], clock: Callable[[float], str]
) -> None:
    """Show the pipelines that the operator named, as long as `allowed`."""
    if not watched.all:
        ui.label(NO_PIPELINES)
    with ui.column().classes("w-full") as cards:
        looks = [_pipeline_card(each, clock) for each in watched.all]

    def look() -> None:
        cards.set_visibility(allowed())
        if cards.visible:
            for each in looks:
                each()

    look()
    ui.timer(EVERY, look)


def _pipeline_card(pipeline: WatchedPipeline, clock: Callable[[float], str]) -> Callable[[], None]:
    """What is shown of one pipeline; gives what brings it up to date."""
    with ui.card().classes("w-full gap-2"):
        with ui.row().classes("items-center"):
            name = ui.label().classes("text-lg break-all")
            state = ui.badge()
        ui.label(pipeline.address).classes("text-xs opacity-70 break-all")
        with ui.row().classes("w-full"):
            numbers = {number: _number(number) for number in NUMBERS}
        trouble = ui.label().classes(
            "text-red-700 dark:text-red-300 text-sm w-full whitespace-pre-wrap break-words"
        )
        with ui.expansion("latest batches").props("dense").classes("w-full"):
            table = plain_table("batch", "finished", "seconds", "events", "matches", "deliveries", "rejected")

    def look() -> None:
        told = texts(pipeline, clock)
        name.set_text(told.name)
        state.set_text(told.state)
        state.props(f"color={'positive' if told.well else 'negative'}")
        for number, text in told.numbers.items():
            numbers[number].set_text(text)
        trouble.set_text(told.trouble)
        table.rows = _numbered(batch_rows(pipeline.report))

    return look


def _number(name: str) -> ui.label:
    with ui.column().classes("gap-0"):
        number = ui.label()
        ui.label(name).classes("text-xs opacity-70")
    return number


def plans_tab(directory: Path | None, allowed: Callable[[], bool]) -> None:
    """Show the plans of a directory, as long as `allowed`."""
    if directory is None:
        ui.label(NO_DIRECTORY)
        return
    told = ui.label().classes("text-sm break-words")
    chosen = ui.select({}, label="plan").classes("w-full sm:w-96")
    drawn = ui.column().classes("w-full")
    seen: list[PlanFile | None] = [None]

    async def look() -> None:
        found = await asyncio.to_thread(plans.listed, directory) if allowed() else []
        names = [each.name for each in found]
        if names != list(chosen.options):
            chosen.set_options(
                names, value=chosen.value if chosen.value in names else next(iter(names), None)
            )
        chosen.set_visibility(bool(names))
        file = next((each for each in found if each.name == chosen.value), None)
        if file is None:
            told.set_text(NO_PLANS.format(directory, directory, directory) if allowed() else "")
            drawn.clear()
        elif file != seen[0]:
            plan = await asyncio.to_thread(plans.read, directory, file)
            told.set_text(plan.heading)
            drawn.clear()
            with drawn:
                _draw(plan)
        seen[0] = file

    chosen.on_value_change(look)
    ui.timer(EVERY_PLANS, look)


def _draw(shown: ShownPlan) -> None:
    plan = shown.plan
    if plan is None:
        return
    ui.label(plan.goal).classes("whitespace-pre-wrap break-words font-mono text-sm")
    ui.label(f"{plans.number(plan.before)} before, {plans.number(plan.after)} planned").classes("text-lg")
    if shown.picture:
        with ui.element("div").classes("w-full overflow-x-auto"):
            picture = ui.element("img").style(PICTURE_WIDTH)
            picture.props["src"] = shown.picture
            picture.props["alt"] = "before and planned"
    plain_table("what", "from", "to", "why").rows = _numbered(plans.move_rows(plan))
    plain_table("plan", "cost", "breaks").rows = _numbered(plans.comparison_rows(plan))


def plain_table(*names: str) -> ui.table:
    """A table of texts, which is moved from side to side on a narrow page."""
    columns: list[dict[str, Any]] = [
        {"name": name, "label": name, "field": name, "align": "left"} for name in names
    ]
    table = ui.table(rows=[], columns=columns, row_key=LINE, pagination=10).classes("w-full")
    return table.props("flat dense")


def _numbered(rows: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
    """The lines of a table with what it tells them apart by."""
    return [{LINE: number, **row} for number, row in enumerate(rows)]
