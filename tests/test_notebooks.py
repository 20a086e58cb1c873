"""The notebooks of examples/ run, and print what they have as outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from notebooks import EXAMPLES, NOTEBOOKS, run_notebook

ON_SPARK = [path for path in NOTEBOOKS if "pyspark" in path.read_text()]


def same_outputs(path: Path, directory: Path) -> None:
    """Run a notebook, and compare what its cells give with what the file has."""
    kept, given = json.loads(path.read_text())["cells"], run_notebook(path, directory)["cells"]
    assert [each.get("outputs") for each in given] == [each.get("outputs") for each in kept], (
        "write them again: python tests/notebooks.py"
    )


@pytest.mark.parametrize(
    "path", [each for each in NOTEBOOKS if each not in ON_SPARK], ids=lambda path: path.name
)
def test_a_notebook_gives_the_outputs_that_it_has(path: Path, tmp_path: Path) -> None:
    same_outputs(path, tmp_path)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("path", ON_SPARK, ids=lambda path: path.name)
def test_a_notebook_on_spark_gives_the_outputs_that_it_has(path: Path, tmp_path: Path) -> None:
    same_outputs(path, tmp_path)


def test_there_are_notebooks_of_both_kinds_that_jupyter_can_read() -> None:
    assert len(ON_SPARK) in range(1, len(NOTEBOOKS))
    for path in NOTEBOOKS:
        notebook: dict[str, Any] = json.loads(path.read_text())
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        ids = [cell["id"] for cell in notebook["cells"]]
        assert len({*ids}) == len(ids)
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] is None and cell["metadata"] == {} for cell in code)


def test_another_output_is_noticed(tmp_path: Path) -> None:
    text = (EXAMPLES / "matching.ipynb").read_text()
    changed = tmp_path / "matching.ipynb"
    changed.write_text(text.replace("['s1', 's2']\"", "['s1']\""))
    assert changed.read_text() != text
    with pytest.raises(AssertionError, match="write them again"):
        same_outputs(changed, tmp_path)
