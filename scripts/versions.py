"""Runs some tests with the lowest and with the highest versions that pyproject.toml allows: `make versions`.

For each end and each Python it makes an environment below build/versions, installs the wheel with its
Spark, and runs `TESTS` there, one by one; kernels are compiled anew, so it takes its time. Lowest is, of
every direct dependency of the library and of the extra `spark`, the lowest version that we allow and that has
a wheel for that Python; highest is the newest that goes with the others. The outcome of each is added to
build/versions/outcome.jsonl and printed as a row of the table in docs/spark.md.

    python scripts/versions.py [lowest] [highest] [--python PATH]...

Without `--python` it takes every Python of `PYTHONS` that is on the PATH or among pyenv's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from packaging.requirements import Requirement

TOP = Path(__file__).parent.parent
PLACE = TOP / "build" / "versions"
TESTS = (
    "tests/test_files.py",
    "tests/test_arrow_rows.py",
    "tests/properties/test_matcher.py",
    "tests/spark/test_match.py",
    "tests/spark/test_types.py",
    "tests/spark/test_streaming.py",
    "tests/spark/test_explain.py",
    "tests/spark/pipeline/test_pipeline.py",
    "tests/spark/pipeline/test_run.py",
)
"""What can break with another version: Arrow, kernels, and every way into Spark."""
SHOWN = ("python", "pyspark", "pyarrow", "numpy", "pandas", "numba")
EXTRAS = ("spark", "sql")
"""What of ours the tests need: they keep subscriptions in databases, too."""
TOOLS = ("pytest>=8,<9.1", "pytest-xdist", "hypothesis", "packaging")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TOLERATED = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
"""Early releases of Spark leave sockets open, which is no error of ours."""


def direct() -> list[str]:
    """What the library and its Spark depend on directly, as pyproject.toml says it."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["spark"]]


def installed() -> list[str]:
    """All that is asked for by name in an environment: what `EXTRAS` bring, and the tools."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    extras = [each for extra in EXTRAS for each in project["optional-dependencies"][extra]]
    return [*project["dependencies"], *extras, *TOOLS]


def at_an_end(end: str) -> list[str]:
    """Arguments of `uv pip install` for the direct dependencies at one end.

    What is compiled comes as a wheel, so the lowest that a Python can have is not built from source;
    of Spark there is no wheel.
    """
    wheels = [Requirement(each).name for each in direct()]
    binary = [f"--only-binary={name}" for name in (*wheels, "llvmlite") if name != "pyspark"]
    resolution = "lowest-direct" if end == "lowest" else "highest"
    return ["--resolution", resolution, *binary, *direct()]


def pythons() -> list[str]:
    """The Pythons of `PYTHONS` that there are, on the PATH or among pyenv's, one of each version."""
    return [found for version in PYTHONS if (found := python_of(version))]


def python_of(version: str) -> str | None:
    """A Python of a version that runs; None where there is none. A shim of pyenv's may stand for none."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(f"python{version}")
    found = sorted(home.glob(f"versions/{version}*/bin/python{version}"))
    for each in [*([on_path] if on_path else []), *map(str, found)]:
        said = subprocess.run([each, "--version"], capture_output=True, text=True, check=False)
        if said.returncode == 0 and said.stdout.startswith(f"Python {version}."):
            return each
    return None


def built_wheel() -> Path:
    """The wheel of the tree."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", PLACE, TOP],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return max(PLACE.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def environment(end: str, python: str, wheel: Path) -> Path:
    """An environment with the versions of an end, made anew; gives its Python."""
    place = PLACE / f"{end}-{Path(python).name}"
    subprocess.run([python, "-m", "venv", "--clear", place], check=True)
    inside = place / "bin" / "python"
    subprocess.run([inside, "-m", "pip", "install", "--quiet", "uv"], check=True, env=plain())
    install = [inside, "-m", "uv", "pip", "install", "--quiet", "--python", inside]
    subprocess.run([*install, *at_an_end(end)], check=True, env=plain())
    subprocess.run([*install, f"{wheel}[{','.join(EXTRAS)}]", *TOOLS], check=True, env=plain())
    return inside


def plain() -> dict[str, str]:
    """The variables of this process, without what would lead to the sources in place of the wheel."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def versions(inside: Path) -> dict[str, str]:
    """The versions that an environment has."""
    listed = subprocess.run(
        [inside, "-m", "pip", "list", "--format", "json"], check=True, capture_output=True, text=True
    )
    told = {each["name"].lower(): each["version"] for each in json.loads(listed.stdout)}
    asked = subprocess.run([inside, "--version"], check=True, capture_output=True, text=True)
    return {"python": asked.stdout.split()[1], **{name: told[name] for name in SHOWN if name in told}}


def tried(inside: Path) -> str:
    """Run the tests in an environment; gives the last line that pytest prints."""
    warnings = [part for each in TOLERATED for part in ("-W", each)]
    settings = {**plain(), "PYSPARK_PYTHON": str(inside), "PYSPARK_DRIVER_PYTHON": str(inside)}
    command = [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", *warnings, *TESTS]
    with subprocess.Popen(command, cwd=TOP, env=settings, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        last = ""
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return re.sub(r" in .*", "", last.strip("= "))


def main() -> None:
    """Try the ends that are asked for, and tell the outcome."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ends", nargs="*", metavar="END", help="lowest or highest (both)")
    parser.add_argument("--python", action="append", help="a Python to try in place of all that there are")
    given = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    wheel = built_wheel()
    rows = []
    asked = itertools.product(given.python or pythons(), given.ends or ["lowest", "highest"])
    for python, end in asked:
        inside = environment(end, python, wheel)
        outcome = {
            "end": end,
            **versions(inside),
            "outcome": tried(inside),
            "day": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        rows.append(outcome)
        with (PLACE / "outcome.jsonl").open("a") as stream:
            stream.write(json.dumps(outcome) + "\n")
    for row in rows:
        print("| " + " | ".join(row.values()) + " |")
    if any("failed" in row["outcome"] or "error" in row["outcome"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
