"""Build the peers' programs from `bench/peers/<peer>` into `build/peers/programs`, where there are the tools.

Versions are pinned in each peer's go.mod, pom.xml or Cargo.toml; packages come from where go, Maven and cargo
are set up to fetch them (`GOPROXY` and so on hold). Sources are copied first, so that nothing is written
beside them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.exchange import FOLDER

SOURCES = Path(__file__).parent
PROGRAMS = FOLDER / "programs"


class MissingError(Exception):
    """A peer cannot be built here; the text says why, in a few words."""


@dataclass(frozen=True, slots=True)
class Program:
    """A peer's program: how it is started, and the version of the peer inside."""

    command: tuple[str, ...]
    version: str


def go(peer: str, module: str) -> Program:
    """A Go module with `main.go`."""
    place = _copied(peer, "go")
    target = (PROGRAMS / peer / "program").absolute()
    _run(["go", "build", "-mod=mod", "-o", str(target), "."], place)
    return Program((str(target),), _found(place / "go.mod", rf"{re.escape(module)} v(\S+)"))


def maven(peer: str, artifact: str) -> Program:
    """A Java class `Main` with the packages that `pom.xml` names."""
    place = _copied(peer, "mvn")
    libraries, classes = (place / "libraries").absolute(), (place / "classes").absolute()
    if not libraries.exists():
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        _run(["mvn", "-q", "-B", copy, f"-DoutputDirectory={libraries}", "-DincludeScope=runtime"], place)
    sources = ["../harness/java/Harness.java", "Main.java"]
    home = _newest_jdk()
    _run([str(home / "javac"), "-nowarn", "-d", str(classes), "-cp", f"{libraries}/*", *sources], place)
    command = (str(home / "java"), "-Xmx6g", "-cp", f"{classes}:{libraries}/*", "Main")
    pattern = rf"<artifactId>{artifact}</artifactId>\s*<version>([^<]+)"
    return Program(command, _found(place / "pom.xml", pattern))


def cargo(peer: str, crate: str) -> Program:
    """A Rust crate with `src/main.rs`."""
    place = _copied(peer, "cargo")
    _run(["cargo", "build", "--quiet", "--release"], place)
    program = place / "target" / "release" / peer
    return Program((str(program.absolute()),), _found(place / "Cargo.toml", rf'{crate} = "=([^"]+)"'))


def _newest_jdk() -> Path:
    """The folder of java and javac: of all that are found, the newest, since Lucene 10 needs Java 21."""
    found = [Path(os.environ["JAVA_HOME"]) / "bin"] if "JAVA_HOME" in os.environ else []
    found += [Path(java).parent for java in filter(None, [shutil.which("javac")])]
    found += [java.parent for java in Path("/usr/lib/jvm").glob("*/bin/javac")]
    if not found:
        raise MissingError("no JDK")
    return max(found, key=_java_version)


def _java_version(folder: Path) -> int:
    said = subprocess.run([folder / "javac", "-version"], capture_output=True, text=True, check=False)
    number = re.search(r"\d+", said.stdout + said.stderr)
    return int(number.group()) if number else 0


def _copied(peer: str, tool: str) -> Path:
    """The peer's sources, and those that programs share, under `build/`; MissingError without the tool."""
    if shutil.which(tool) is None:
        raise MissingError(f"no {tool}")
    for name in (peer, "harness"):
        shutil.copytree(SOURCES / name, PROGRAMS / name, dirs_exist_ok=True)
    return PROGRAMS / peer


def _run(command: Sequence[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing said"]
        raise MissingError(f"{command[0]}: {said[-1][:200]}")


def _found(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text())
    assert found, f"{file} pins no version"
    return found.group(1)
