"""The page about the simulator: its example runs, and its tables name what there is."""

from __future__ import annotations

from pathlib import Path

from distributary.sim import faults, latency, underlay
from house.snippets import run_snippets

PATH = Path(__file__).parents[2] / "docs" / "simulator.md"
PAGE = PATH.read_text()


def test_the_example_delivers_its_event_after_the_faults(tmp_path: Path) -> None:
    (received,) = run_snippets([PATH], tmp_path)["deployment"].deliveries
    assert (received.delivery.event.id, received.delivery.subscriber) == ("e1", "ann")


def test_every_fault_and_every_latency_model_is_told_of() -> None:
    for module, kind in ((faults, None), (latency, latency.Latency), (underlay, latency.Latency)):
        for name, thing in vars(module).items():
            if not isinstance(thing, type) or thing.__module__ != module.__name__ or name.startswith("_"):
                continue
            if kind is None and "start" in getattr(thing, "__dataclass_fields__", ()):
                assert f"`{name}`" in PAGE or f"`{name}(" in PAGE, name
            if kind is not None and issubclass(thing, kind) and thing is not kind:
                assert f"`{name}(" in PAGE or f"`{name}." in PAGE, name
