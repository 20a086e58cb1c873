"""Runs some tests with the lowest and with the highest versions that pyproject.toml allows: `make versions`.

For each end it makes an environment below build/versions, installs the wheel with its Spark, and runs `TESTS`
there, one by one; kernels are compiled anew, so it takes its time. Lowest is the lower bound of every
direct dependency of the library and of the extra `spark`; highest is what pip takes. The outcome of each is
added to build/versions/outcome.jsonl and printed as a row of the table in docs/spark.md.

    python scripts/versions.py [lowest] [highest] [--python PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import re
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
TOOLS = ("pytest>=8,<9.1", "pytest-xdist", "hypothesis", "packaging")
TOLERATED = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
"""Early releases of Spark leave sockets open, which is no error of ours."""


def lower_bound(requirement: Requirement) -> str | None:
    """The lowest version that a requirement allows, as a requirement; None when it has no lower bound.

    >>> lower_bound(Requirement("pyspark[connect]>=4.1,<5"))
    'pyspark==4.1'
    """
    found = [each.version for each in requirement.specifier if each.operator == ">="]
    return f"{requirement.name}=={found[0]}" if found else None


def lowest() -> list[str]:
    """The lower bounds of what the library and its Spark depend on directly."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    return [bound for each in asked if (bound := lower_bound(Requirement(each)))]


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
    subprocess.run([python, "-m", "venv", "--clear", PLACE / end], check=True)
    inside = PLACE / end / "bin" / "python"
    pins = lowest() if end == "lowest" else []
    install = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"{wheel}[spark]", *TOOLS, *pins], check=True)
    return inside


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
    settings = {**os.environ, "PYSPARK_PYTHON": str(inside), "PYSPARK_DRIVER_PYTHON": str(inside)}
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
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    given = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    wheel = built_wheel()
    rows = []
    for end in given.ends or ["lowest", "highest"]:
        inside = environment(end, given.python, wheel)
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
