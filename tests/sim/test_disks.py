"""What a crash leaves on a simulated disk: a beginning of what was being written, and all from before."""

from __future__ import annotations

from random import Random

from distributary.overlay.node import Store
from distributary.sim.disks import Disks


def test_a_crash_keeps_a_beginning_of_what_was_being_written_of_any_length() -> None:
    kept_lengths = set()
    for seed in range(40):
        disks = Disks(Random(seed))
        disks.begin(7, [Store("before", 0)])
        disks.end(7)
        disks.begin(7, [Store(f"new {number}", number) for number in range(3)])
        disks.hold(7, ("what waits",))
        lost = disks.crash(7)
        kept = list(disks.of(7))
        assert kept == ["before", "new 0", "new 1", "new 2"][: len(kept)]
        assert len(kept) + lost == 4
        assert 7 not in disks.busy
        kept_lengths.add(len(kept))
    assert kept_lengths == {1, 2, 3, 4}


def test_a_disk_that_is_wiped_is_empty_and_others_are_not() -> None:
    disks = Disks(Random(1))
    for address in (7, 8):
        disks.begin(address, [Store("term", "first")])
        disks.end(address)
    disks.wipe(7)
    assert (disks.of(7), disks.of(8)) == ({}, {"term": "first"})
