"""What is said to be safe is on the disk, with all before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distributary.edge.session_disk import SessionDisk
from distributary.edge.stored import StoredPlace
from distributary.overlay.node import Store


class SlowDisk:
    """Writes when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
        self.waiting.append(then)

    def finish(self) -> None:
        waiting, self.waiting = self.waiting, []
        for then in waiting:
            then()


def test_a_change_of_nothing_is_safe_once_all_before_it_is() -> None:
    slow, safe = SlowDisk(), list[str]()
    disk = SessionDisk(slow)
    disk.keep("ann", then=lambda: safe.append("nothing before"))
    assert safe == ["nothing before"]
    disk.keep("ann", reached=StoredPlace(None, (), 1), then=lambda: safe.append("a change"))
    disk.keep("ann", then=lambda: safe.append("the same again"))
    assert safe == ["nothing before"]
    slow.finish()
    assert safe == ["nothing before", "a change", "the same again"]
    disk.keep("ann", then=lambda: safe.append("nothing left"))
    assert safe[-1] == "nothing left"
