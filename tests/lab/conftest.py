"""The tiny experiment in place of the real ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from distributary_lab import registry
from lab.tiny import TINY


@pytest.fixture
def tiny_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry that knows one experiment."""
    caches = (registry.experiments, registry.claims, registry.experiment_of)
    monkeypatch.setattr(registry, "_listed", lambda: iter([TINY]))
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()
