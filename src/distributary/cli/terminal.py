"""How the commands talk to whoever runs them: exit codes, help, progress, and what was set aside."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from distributary.errors import DistributaryError
from distributary.files import Quarantine

WELL, FAILED, SET_ASIDE, STRICT = 0, 1, 3, 4


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    description: str,
    examples: str,
) -> argparse.ArgumentParser:
    """Add a command whose help says what it does and shows it used."""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def progress_shown() -> Progress:
    """Progress on standard error, when somebody is looking."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def say(text: str) -> None:
    """Tell something that is no output."""
    print(text, file=sys.stderr)


def write_text(path: Path, text: str) -> None:
    """Write a file that somebody asked for, and say so."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DistributaryError(f"cannot write {path}: {error.strerror}") from error
    say(f"wrote {path}")


def say_set_aside(quarantine: Quarantine) -> int:
    """Tell what was set aside, if anything; returns the exit code that says so."""
    if not quarantine.count:
        return WELL
    for rejected in quarantine.samples:
        say(f"set aside: {rejected}")
    more = quarantine.count - len(quarantine.samples)
    say(f"{quarantine.count:,} set aside in {quarantine.path}" + (f" ({more:,} not shown)" if more else ""))
    return SET_ASIDE
