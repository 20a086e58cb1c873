"""Pipelines on Spark, as their own `/status` tells of them ([status] in a pipeline's file).

Rules:

- Only the addresses that the operator named when the broker was started are asked; nobody who looks can name
  another. Redirections are not followed, and of an answer as much is read as a status can have.
- They are asked while somebody looks, each by a task of its own: one that does not answer holds up no other.
- What they tell is not believed: it is checked before it is shown, and shown as text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import FiniteFloat, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from distributary.edge.web.outgoing import OutgoingError, checked_address, get

EVERY = 2.0
"""Seconds between two questions to a pipeline."""
MOST_BYTES = 1 << 20
"""Of an answer."""
LONGEST_NAME, LONGEST_REASON = 100, 2_000
"""Characters that are shown."""
UNKNOWN = "-"


@dataclass(frozen=True)
class FinishedBatch:
    """A micro-batch that is done."""

    batch: int
    finished: datetime
    seconds: FiniteFloat
    events: int
    matches: int
    deliveries: int
    rejected: int


@dataclass(frozen=True)
class PipelineLag:
    """How far a pipeline is behind its source, in what the source can tell."""

    files: int | None = None
    offsets: int | None = None
    seconds: FiniteFloat | None = None


@dataclass(frozen=True)
class PipelineFault:
    """Why a run has failed."""

    at: str
    reason: str


@dataclass(frozen=True)
class PipelineReport:
    """What a pipeline tells of itself."""

    pipeline: str
    state: str
    batch: int | None
    events_per_second: FiniteFloat
    matches_per_second: FiniteFloat
    lag: PipelineLag
    subscriptions_version: int | None
    last_error: PipelineFault | None
    latest_batches: tuple[FinishedBatch, ...] = ()
    """None of an earlier release."""


REPORT = TypeAdapter(PipelineReport)


class WatchedPipeline:
    """A pipeline that is asked how it is: its last report, and since when it cannot be had and why."""

    def __init__(self, address: str, now: Callable[[], float]) -> None:
        self.address = address
        self.report: PipelineReport | None = None
        self.fault: str | None = None
        """What is wrong with the last answer; None when it was good, or is still awaited."""
        self.heard: float | None = None
        """When the report came."""
        self._now = now

    async def ask(self) -> None:
        """Ask once."""
        try:
            answer = await get(self.address, {}, private=True, most=MOST_BYTES)
            if answer.status != 200:
                raise OutgoingError(f"it answers with status {answer.status}")
            self.report = read_report(answer.body)
        except OutgoingError as error:
            self.fault = str(error)
        else:
            self.fault, self.heard = None, self._now()

    async def keep_asking(self) -> None:
        """Ask now and then, until this is cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(EVERY)


class WatchedPipelines:
    """The pipelines whose addresses the operator has named, asked while somebody looks."""

    def __init__(self, addresses: Iterable[str], now: Callable[[], float]) -> None:
        self.all = [WatchedPipeline(address, now) for address in addresses]
        self._watchers = 0
        self._asking: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Somebody begins to look."""
        self._watchers += 1
        if self._watchers == 1:
            self._asking = [asyncio.create_task(each.keep_asking()) for each in self.all]

    def end(self) -> None:
        """Somebody looks no more."""
        self._watchers -= 1
        if self._watchers == 0:
            self.stop()

    def stop(self) -> None:
        """Ask no more, whoever looks."""
        for task in self._asking:
            task.cancel()
        self._asking = []


def status_address(text: str) -> str:
    """Where a pipeline tells how it is: what the operator has written, or `/status` of that host.

    OutgoingError for what is no address.

    >>> status_address("http://127.0.0.1:9464")
    'http://127.0.0.1:9464/status'
    >>> status_address("https://spark.example.org/quotes/status")
    'https://spark.example.org/quotes/status'
    """
    parts = checked_address(text)
    return parts._replace(path="/status").geturl() if parts.path in ("", "/") else text


def read_report(body: bytes) -> PipelineReport:
    """What an answer tells; OutgoingError when it is no status of a pipeline."""
    try:
        return REPORT.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        told = f"{place}: {first['msg']}" if place else first["msg"]
        raise OutgoingError(f"its answer is no status of a pipeline: {told[:LONGEST_REASON]}") from None


class PipelineTexts(NamedTuple):
    """A pipeline in words."""

    name: str
    state: str
    well: bool
    """Whether it runs and answers."""
    numbers: dict[str, str]
    trouble: str
    """What is wrong, if anything is known to be."""


NUMBERS = ("batch", "events a second", "matches a second", "seconds of the last", "behind", "subscriptions")


def texts(pipeline: WatchedPipeline, clock: Callable[[float], str]) -> PipelineTexts:
    """What is told of a pipeline; `clock` writes a time."""
    report, fault = pipeline.report, pipeline.fault
    if report is None:
        told = "" if fault is None else f"Not heard yet: {fault}"
        state = "asked" if fault is None else "not heard"
        return PipelineTexts(
            urlsplit(pipeline.address).netloc, state, False, dict.fromkeys(NUMBERS, UNKNOWN), told
        )
    troubles = []
    if fault is not None:
        troubles.append(f"Not heard since {clock(pipeline.heard or 0.0)}: {fault}")
    if report.last_error is not None:
        noted = report.last_error
        troubles.append(f"A run failed at {noted.at[:LONGEST_NAME]}: {noted.reason[:LONGEST_REASON]}")
    batches = report.latest_batches
    values: Sequence[str] = (
        UNKNOWN if report.batch is None else f"{report.batch:,}",
        f"{report.events_per_second:,.0f}",
        f"{report.matches_per_second:,.0f}",
        f"{batches[-1].seconds:,.2f}" if batches else UNKNOWN,
        lag_text(report.lag),
        UNKNOWN if report.subscriptions_version is None else f"version {report.subscriptions_version:,}",
    )
    state = report.state[:LONGEST_NAME] if fault is None else "not heard"
    well = fault is None and report.state == "running"
    numbers = dict(zip(NUMBERS, values, strict=True))
    return PipelineTexts(report.pipeline[:LONGEST_NAME], state, well, numbers, "\n".join(troubles))


def lag_text(lag: PipelineLag) -> str:
    """How far behind it is, in words.

    >>> lag_text(PipelineLag(files=3, seconds=0.25)), lag_text(PipelineLag())
    ('3 files, 0.2 s', '-')
    """
    told = [f"{lag.files:,} files"] if lag.files is not None else []
    told += [f"{lag.offsets:,} offsets"] if lag.offsets is not None else []
    told += [f"{lag.seconds:,.1f} s"] if lag.seconds is not None else []
    return ", ".join(told) or UNKNOWN


def batch_rows(report: PipelineReport | None) -> list[dict[str, str]]:
    """The latest batches as lines of a table, the last first."""
    batches = () if report is None else report.latest_batches
    return [
        {
            "batch": f"{each.batch:,}",
            "finished": each.finished.astimezone(UTC).strftime("%m-%d %H:%M:%S"),
            "seconds": f"{each.seconds:,.2f}",
            "events": f"{each.events:,}",
            "matches": f"{each.matches:,}",
            "deliveries": f"{each.deliveries:,}",
            "rejected": f"{each.rejected:,}",
        }
        for each in reversed(batches)
    ]
