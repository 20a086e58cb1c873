"""What was seen lately is known, one by one and in batches, beside a plain list of all that was ever seen."""

from __future__ import annotations

from random import Random

import pytest

from distributary.overlay.recent import RecentKeys
from properties.examples import examples


@pytest.mark.parametrize("seed", range(examples(40)))
def test_at_least_the_latest_keys_are_remembered_and_at_most_twice_as_many(seed: int) -> None:
    random = Random(f"recent keys {seed}")
    most = random.randint(1, 12)
    recent: RecentKeys[int, int] = RecentKeys(most)
    seen: list[int] = []
    for _ in range(200):
        count = random.randint(1, 5)
        keys = [key for key in random.sample(range(100), count) if key not in recent]
        if random.random() < 0.5:
            recent.put_all(keys, [-key for key in keys])
        else:
            for key in keys:
                recent.put(key, -key)
        seen += keys
        kept = list(recent)
        assert kept == seen[len(seen) - len(kept) :]
        assert min(most, len(seen)) <= len(kept) <= 2 * max(most, 5)
        assert all(recent.get(key) == -key and key in recent for key in kept)
        others = random.sample(range(100), 10)
        assert recent.has_none_of(others) == (not set(others) & set(kept))
        assert all(recent.get(key) is None for key in range(100) if key not in kept)
