"""Pipelines whose sink is no files, killed in each phase of a batch, and at moments: what Kafka's and the
tables' tests have in common.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from random import Random

from chaos.halting import STEPS
from chaos.phases import last_number
from chaos.victim import Victim
from distributary.model import Subscription
from distributary.store import open_store

FILES, EVENTS = 24, 200
"""Enough that something is left to do at each kill: no kill lets more than a few batches pass."""
MOMENTS = 2
LONGEST = 1.0
"""Seconds from a batch to a kill that is aimed at no phase, at most."""
PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, price DOUBLE"
options = {{ maxFilesPerTrigger = 1 }}
[subscriptions]
store = "subscriptions"
[trigger]
{trigger}
[sink]
columns = ["price"]
{sink}
"""

Due = tuple[str, str, tuple[str, ...], float]
"""A delivery: subscriber, event, subscriptions, price."""


def feed(place: Path, random: Random) -> list[Due]:
    """Write subscriptions and all events; gives what is to be delivered, in order."""
    (place / "in").mkdir()
    open_store(place / "subscriptions", create=True).commit(
        [Subscription("s1", "ann", where="price > 50"), Subscription("s2", "bob", topic="quotes")]
    )
    due: list[Due] = []
    for file in range(FILES):
        prices = {f"e{file}-{number}": float(random.randint(0, 100)) for number in range(EVENTS)}
        events = [{"id": id, "topic": "quotes", "price": price} for id, price in prices.items()]
        (place / "in" / f"{file}.json").write_text("\n".join(map(json.dumps, events)))
        due += [("bob", id, ("s2",), price) for id, price in prices.items()]
        due += [("ann", id, ("s1",), price) for id, price in prices.items() if price > 50]
    return sorted(due)


def kill_in_every_phase(place: Path, sink: str, random: Random) -> dict[str, int]:
    """Kill the pipeline again and again, then let it finish; gives how often it was killed in which phase.

    `sink` is what stands below `[sink]` in its file, but for the columns.
    """
    configure(place, sink, 'every = "0 seconds"')
    aims = [*STEPS, *["moment"] * MOMENTS]
    random.shuffle(aims)
    for aim in aims:
        kill_once(place, aim, random)
    configure(place, sink, "available_now = true")
    victim = Victim(place, "local[2]")
    assert victim.finish() == 0, victim.told()
    return {f"kill of a pipeline, {aim}": aims.count(aim) for aim in aims}


def configure(place: Path, sink: str, trigger: str) -> None:
    (place / "pipeline.toml").write_text(PIPELINE.format(sink=sink, trigger=trigger))


def kill_once(place: Path, aim: str, random: Random) -> None:
    """Start the pipeline and kill it in a phase of its next batch or the one after, or soon after a batch."""
    done = last_number(place / "checkpoint" / "commits")
    if aim == "moment":
        victim = Victim(place, "local[2]")
        victim.until(partial(_is_beyond, place / "checkpoint" / "commits", done), "a batch")
        time.sleep(random.uniform(0, LONGEST))
    else:
        victim = Victim(place, "local[2]", (aim, done + 1 + random.randrange(2)))
        victim.until(lambda: victim.halted, aim)
    assert victim.kill(), aim
    assert last_number(place / "checkpoint" / "commits") + 1 < FILES, "nothing is left to lose"


def _is_beyond(commits: Path, batch: int) -> bool:
    return last_number(commits) > batch
