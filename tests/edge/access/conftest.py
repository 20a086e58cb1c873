"""A directory with an access file, for every test that asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.access.issuing import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
