"""How long an event takes from a producer through a broker to a consumer: Figure 4 of 000.

The broker is a process of its own, and the two clients share another, so that one clock times both ends. The
consumer asks for everything; the next event is published when the one before has come, so there is nothing to
batch. A broker of `flooding` passes events on from memory, one of a `tree` has each on its disk first.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

import numpy as np

from distributary.client.endpoints import connect_node as connect
from distributary.live.local_network import LocalNetwork
from distributary.model import Event
from distributary_lab import words
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Runs, Verdict, answer, grid
from distributary_lab.rows import labelled, listed, means, numbers

MEMORY, DISK = "flooding", "tree"
PAPER_SMALL_BYTES, LARGEST = 10_000, 1_000_000
PAPER_SMALL, PAPER_LARGEST = 1.0, 20.0
"""Milliseconds to 10 KB and at 1 MB."""
WARMING = 5
"""Events before those that are timed."""
PATIENCE = 60.0
"""Seconds in which an event must have come."""


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """Delays of events of one size, in milliseconds."""
    with TemporaryDirectory(prefix="delay-") as place:
        network = LocalNetwork(Path(place))
        [broker] = network.up(1, str(point["system"]))["nodes"]
        try:
            delays = asyncio.run(_delays(broker["client"], int(point["bytes"]), int(point["events"])))
        finally:
            network.down()
    return [{"mean_ms": fmean(delays), "median_ms": median(delays)}]


async def _delays(broker: str, size: int, events: int) -> list[float]:
    delays = []
    async with (
        connect(broker, name="producer") as producer,
        connect(broker, name="consumer") as consumer,
        consumer.subscribed(topic="timed") as coming,
    ):
        for number in range(WARMING + events):
            event = Event(f"e{number}", "timed", {"payload": "x" * size})
            begun = time.perf_counter()
            published = asyncio.create_task(producer.publish(event))
            came = await asyncio.wait_for(anext(coming), PATIENCE)
            delays.append(1000 * (time.perf_counter() - begun))
            assert came == event
            await published
    return delays[WARMING:]


def check(rows: Rows) -> Verdict:
    """Nearly the same delay for all that is small, and not more than the paper's, small or large."""
    quietest = {
        size: min(numbers(rows, "mean_ms", system=MEMORY, bytes=size)) for size in labelled(rows, "bytes")
    }
    small = [delay for size, delay in quietest.items() if size <= PAPER_SMALL_BYTES]
    large = quietest[max(quietest)]
    on_disk = means(rows, "mean_ms", by="bytes", system=DISK)
    return Verdict.of(
        all(words.as_low_as(delay, PAPER_SMALL) for delay in small)
        and words.much_less(max(small), large)
        and words.as_low_as(large, PAPER_LARGEST),
        ours=f"{min(small):.2f} to {max(small):.2f} ms to 10 KB, {large:.1f} ms at {max(quietest):,} B",
        ratio=max(small) / PAPER_SMALL,
        reason="As low as the paper's, small and large, and much longer for the largest? "
        "Of each size the round with the least mean. By bytes "
        f"{listed(quietest, '{:.2f}')} ms; on disk first {listed(on_disk, '{:.2f}')} on average of rounds.",
    )


SIZES = [100, 1_000, PAPER_SMALL_BYTES, 100_000, LARGEST]

EXPERIMENTS = (
    Experiment(
        name="broker-delay",
        title="A producer, a broker and a consumer",
        grid=grid(system=[MEMORY, DISK], bytes=SIZES, events=[200], round=[1, 2, 3]),
        quick=grid(system=[MEMORY, DISK], bytes=[100, PAPER_SMALL_BYTES, LARGEST], events=[20], round=[1]),
        run=run,
        measured=("mean_ms", "median_ms"),
        runs=Runs.LIVE,
        answers={
            "000-fig4": answer(
                check,
                Plot(
                    "Delay by size",
                    x="bytes",
                    y="mean_ms",
                    series="system",
                    y_label="ms",
                    log_x=True,
                    log_y=True,
                    reference={"the paper's to 10 KB": PAPER_SMALL, "the paper's at 1 MB": PAPER_LARGEST},
                ),
            )
        },
        deviation="Loopback in place of a network of machines; producer and consumer share a process.",
        alone=True,
    ),
)
