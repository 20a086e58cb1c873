"""The tiny experiment in place of the real ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from distributary_lab import claims, registry
from lab.tiny import CLAIM, TINY


@pytest.fixture
def tiny_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry that knows one experiment, and a catalogue that has its claim too."""
    caches = (registry.experiments, claims.claims, registry.experiment_of)
    known = {**claims.claims(), CLAIM.id: CLAIM}
    monkeypatch.setattr(claims, "_read", lambda: known)
    monkeypatch.setattr(registry, "_listed", lambda: iter([TINY]))
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()
