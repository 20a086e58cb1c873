"""The page about the simulator: its example runs, and its tables name what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from distributary.sim import faults, latency, underlay

PAGE = (Path(__file__).parent.parent.parent / "docs" / "simulator.md").read_text()


def test_the_example_delivers_its_event_after_the_faults() -> None:
    block = PAGE.split("## From Python\n")[1].split("| part |")[0]
    names: dict[str, Any] = {}
    exec("\n".join(line[4:] for line in block.splitlines()), names)
    (received,) = names["deployment"].deliveries
    assert (received.delivery.event, received.delivery.subscriber) == ("e1", "ann")


def test_every_fault_and_every_latency_model_is_told_of() -> None:
    for module, kind in ((faults, None), (latency, latency.Latency), (underlay, latency.Latency)):
        for name, thing in vars(module).items():
            if not isinstance(thing, type) or thing.__module__ != module.__name__ or name.startswith("_"):
                continue
            if kind is None and "start" in getattr(thing, "__dataclass_fields__", ()):
                assert f"`{name}`" in PAGE or f"`{name}(" in PAGE, name
            if kind is not None and issubclass(thing, kind) and thing is not kind:
                assert f"`{name}(" in PAGE or f"`{name}." in PAGE, name
