"""The examples run, and print what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

EXPECTED = {
    "quickstart.py": ["e1 goes to ['s1', 's2']", "e2 -> s5", "e3 -> s2", "e3 -> s5", "e4 -> s3"],
    "own_filter.py": ["at 3 -> ['s1']", "at 9 -> ['s2']"],
    "own_filter_tree.py": [
        "2 asks 1 for [Profile(words='oil')]",
        "e1 -> ann after 2 hops",
        "e1 -> bob after 2 hops",
        "e2 -> bob after 2 hops",
        "e3 -> eve after 1 hops",
        "4 is now below 3",
    ],
    "stock_quotes.py": ["thresholds deliver what SF delivers: True"],
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example_prints_what_it_promises(name: str) -> None:
    run = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True)
    for line in EXPECTED[name]:
        assert line in run.stdout.splitlines()
