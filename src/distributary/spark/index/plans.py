"""The rendezvous plan of a store, kept in its workspace: once made it stays, and all streams go by it.

What streams remember of tolerances lies where the plan sends the events, so another plan, or one that is read
wrongly, would give wrong answers. The file therefore carries checksums (see `distributary.store.checked`).
"""

from __future__ import annotations

from pathlib import Path

from distributary.errors import DamagedError
from distributary.store import SubscriptionStore
from distributary.store.checked import Label, read_checked, write_checked
from distributary.store.durable import make_directory, publish


def kept_plan(store: SubscriptionStore, capacity: int) -> str | None:
    """The plan for parts of that capacity as JSON; None when there is none yet."""
    place = _place(store, capacity)
    try:
        text: str = read_checked(place, _label(store, capacity))[0].to_pybytes().decode()
    except FileNotFoundError:
        return None
    except DamagedError as error:
        raise DamagedError(
            f"{error}. This plan says where each subscription lives, and what streams remember of tolerances "
            "depends on it: put it back from a backup, or remove it and start the streams anew"
        ) from None
    return text


def keep_plan(store: SubscriptionStore, capacity: int, text: str) -> str:
    """Keep a plan, and return the one to go by: the first that somebody kept."""
    place = _place(store, capacity)
    make_directory(place.parent)
    label = _label(store, capacity)
    publish(
        place,
        store.workspace / "temporary",
        lambda stream: write_checked(stream, label, lambda inner: inner.write(text.encode())),
    )
    return kept_plan(store, capacity) or text


def _place(store: SubscriptionStore, capacity: int) -> Path:
    return store.workspace / f"rendezvous-{capacity}.plan"


def _label(store: SubscriptionStore, capacity: int) -> Label:
    return {"store": store.identity, "capacity": capacity}
