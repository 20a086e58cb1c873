"""The blocks of a tutorial: files to write, commands to run, and what they print.

A block with a title is a file, a block of `sh` has commands, one a line. A block of `text` without a title is
for the reader alone: it sets up what a test has already.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from house.rooms import TOP

TUTORIALS = TOP / "docs" / "tutorials"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
PRINTED = "printed"
"""The title of a block that is what the commands before it print."""


class Section(NamedTuple):
    """What stands below one heading of a tutorial."""

    files: dict[str, str]
    commands: list[str]
    printed: str
    """What the commands print, where the tutorial says so."""


def sections(page: Path) -> dict[str, Section]:
    """The sections of a tutorial by their headings."""
    heading, *rest = HEADING.split(page.read_text())
    assert heading.startswith("# ")
    return {title: _section(text) for title, text in zip(rest[::2], rest[1::2], strict=True)}


def _section(text: str) -> Section:
    blocks = BLOCK.findall(text)
    return Section(
        {title: content for _, title, content in blocks if title and title != PRINTED},
        [line for language, _, content in blocks if language == "sh" for line in content.splitlines()],
        "".join(content for _, title, content in blocks if title == PRINTED),
    )


class Reader:
    """Somebody who follows a tutorial, in a directory of their own, with other addresses than it has."""

    def __init__(self, directory: Path, elsewhere: Mapping[str, str]) -> None:
        self.directory = directory
        self.elsewhere = dict(elsewhere)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self.environment = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable}

    def _told(self, text: str) -> str:
        for written, here in self.elsewhere.items():
            text = text.replace(written, here)
        return text

    def write(self, section: Section) -> None:
        """Write the files of a section."""
        for name, text in section.files.items():
            (self.directory / name).write_text(self._told(text))

    def run(self, command: str) -> str:
        """Run a command to its end; gives what it prints."""
        ran = subprocess.run(
            self._told(command),
            shell=True,
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    @contextmanager
    def started(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on until it is told to end; what it says beside its output is in errors.txt."""
        with (
            (self.directory / "errors.txt").open("ab") as errors,
            subprocess.Popen(
                f"exec {self._told(command)}",
                shell=True,
                cwd=self.directory,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()
