"""What would be uploaded: an sdist and a wheel that are whole, say the right things, and need no extra.

They are built from the tree, unless DISTRIBUTARY_DIST names the directory of some that are (`make wheel`).
`make wheel` and `make chaos` also install the wheel into an environment that is empty, which fetches 200 MB.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import distributary
from distributary.cli.main import COMMANDS
from house.rooms import PACKAGES, SOURCE, TOP

EXTRAS = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OF_DEVELOPERS = {"dev", "docs"}
SUBSCRIPTIONS = '{"id": "s1", "subscriber": "ann", "topic": "quotes", "where": "price > 8"}\n'
EVENTS = '{"id": "e1", "topic": "quotes/OTE", "price": 9}\n{"id": "e2", "topic": "quotes/OTE", "price": 7}\n'
MATCH = ("match", "--subscriptions", "subscriptions.jsonl", "--events", "events.jsonl")
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)")

WITHOUT_EXTRAS = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from distributary.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, where nothing that only an extra brings can be imported."""

OF_EXTRAS = {
    *("argon2", "confluent_kafka", "fastavro", "grpc", "h11", "jwt", "matplotlib", "nicegui", "pandas"),
    *(
        "opentelemetry",
        "psycopg",
        "py4j",
        "pyspark",
        "shapely",
        "sqlalchemy",
        "starlette",
        "uvicorn",
        "uvloop",
        "websockets",
    ),
}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the sdist and the wheel, the wheel being made from the sdist."""
    if given := os.environ.get("DISTRIBUTARY_DIST"):
        return Path(given).absolute()
    directory = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(TOP)], directory)
    return directory


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    [path] = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        text = archive.read(f"distributary-{distributary.__version__}.dist-info/METADATA").decode()
    return Parser().parsestr(text)


def run(command: Sequence[str], directory: Path) -> str:
    """Run a command, which must succeed; gives what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def test_an_index_of_packages_would_take_both(dist: Path) -> None:
    files = sorted(map(str, dist.glob("*")))
    assert len(files) == 2
    run([sys.executable, "-m", "twine", "check", "--strict", *files], dist)


def test_the_wheel_has_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    there = {
        path.relative_to(SOURCE).as_posix()
        for package in PACKAGES
        for path in (SOURCE / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licensed = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
    assert (there - packed, packed - there, len(licensed)) == (set(), set(), 1)
    data = {name for name in packed if not name.endswith(".py")}
    assert data >= {
        "distributary/py.typed",
        "distributary/workloads/xml_types.toml",
        "distributary_lab/claims.toml",
    }


def test_the_sdist_has_what_tests_and_docs_need(dist: Path) -> None:
    [path] = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {
        "Makefile",
        "README.md",
        "mkdocs.yml",
        "docs/index.md",
        "tests/conftest.py",
        "examples/sites.toml",
    }
    assert not {
        name for name in names if name.startswith((".venv", "build", "dist")) or "__pycache__" in name
    }


def test_what_the_wheel_says_of_itself_is_right(metadata: Message) -> None:
    assert metadata["Name"] == "distributary"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra") or ()) == set(EXTRAS)
    classifiers = set(metadata.get_all("Classifier") or ())
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= classifiers
    for url in metadata.get_all("Project-URL") or ():
        assert url.partition(", ")[2].startswith("https://")


@pytest.mark.parametrize("extra", sorted({*EXTRAS} - OF_DEVELOPERS))
def test_an_extra_is_told_of_where_the_docs_begin(extra: str) -> None:
    assert f"\n| `{extra}` | " in (TOP / "docs" / "index.md").read_text()


def test_the_text_on_the_package_s_page_is_the_readme_without_links_that_lead_nowhere(
    metadata: Message,
) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload())
    assert text.startswith("# Distributary")
    assert "distributary serve --demo" in text
    assert RELATIVE_LINK.findall(text) == []
    assert RELATIVE_LINK.findall((TOP / "README.md").read_text()) != []


def test_commands_and_matching_need_no_extra(wheel: Path, tmp_path: Path) -> None:
    """Matching is tried with the tree, whose kernels are compiled."""
    write_files(tmp_path)
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    program = WITHOUT_EXTRAS.format(missing=OF_EXTRAS)
    (tmp_path / "installed" / "program.py").write_text(program)
    helped = run([sys.executable, str(tmp_path / "installed" / "program.py"), "--help"], tmp_path)
    assert "match events against subscriptions" in helped
    (tmp_path / "program.py").write_text(program)
    matched = run([sys.executable, "program.py", *MATCH], tmp_path)
    assert json.loads(matched) == {"event": "e1", "subscription": "s1"}


def write_files(directory: Path) -> None:
    (directory / "subscriptions.jsonl").write_text(SUBSCRIPTIONS)
    (directory / "events.jsonl").write_text(EVENTS)


@pytest.mark.chaos
def test_the_wheel_works_in_an_environment_with_nothing_else(
    wheel: Path, metadata: Message, tmp_path: Path
) -> None:
    write_files(tmp_path)
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    run([str(binaries / "pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel)], tmp_path)
    command = str(binaries / "distributary")
    for name in COMMANDS:
        assert run([command, name, "--help"], tmp_path).startswith(f"usage: distributary {name} ")
    assert json.loads(run([command, *MATCH], tmp_path)) == {"event": "e1", "subscription": "s1"}
    python = str(binaries / "python")
    where = run([python, "-c", "import distributary; print(distributary.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)
    asked = [Requirement(each) for each in metadata.get_all("Requires-Dist") or ()]
    extra = {each.name for each in asked if each.marker} - {each.name for each in asked if not each.marker}
    listed = json.loads(run([python, "-m", "pip", "list", "--format", "json"], tmp_path))
    assert not extra & {each["name"] for each in listed}
