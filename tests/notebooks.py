"""Runs the notebooks of examples/ without Jupyter: `python tests/notebooks.py` writes what their cells print.

The cells of a notebook run one after the other in one namespace, as a kernel would run them. What a cell
prints, and the value of its last expression, are its outputs. So a notebook takes the Spark session that is
there, and the outputs that it has can be compared with those of a run.
"""

from __future__ import annotations

import ast
import io
import json
import os
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run_notebook(path: Path, directory: Path) -> dict[str, Any]:
    """The notebook with the outputs of a run in a directory; an error is raised as the cell raises it."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    with chdir(directory):
        for number, cell in enumerate(each for each in notebook["cells"] if each["cell_type"] == "code"):
            cell["outputs"] = _outputs("".join(cell["source"]), f"{path.name}[{number}]", names)
    return notebook


def _outputs(source: str, place: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """What a cell gives, as a notebook keeps it."""
    tree = ast.parse(source, place)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, place, "exec"), names)
        value = None if last is None else eval(compile(last, place, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append(
            {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for each in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as place:
            ran = run_notebook(each, Path(place))
        each.write_text(json.dumps(ran, indent=1, ensure_ascii=False) + "\n")
