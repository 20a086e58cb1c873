"""How the commands talk to whoever runs them: exit codes, help, progress, and what was set aside."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.cli.arguments import whole
from distributary.output import STANDARD_OUTPUT, opened_for_writing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from distributary.quarantine import Quarantine

WELL, FAILED, MISUSED, SET_ASIDE, STRICT = range(5)
"""Exit codes; argparse, too, gives that of wrong arguments."""

Commands = argparse._SubParsersAction
"""What `add_subparsers` returns."""

WIDTH_OF_FILES = 110
"""Columns of tables that go to a file or a pipe."""


def describe(command: argparse.ArgumentParser, text: str | None, examples: str = "", **inserted: str) -> None:
    """Give a command its help: what it does, and how it is used.

    Without `examples` the text is a docstring, which has them after a line `examples:`. Names in braces in
    the docstring are replaced by what is `inserted`.
    """
    description = text or ""
    if not examples:
        description, _, examples = cleandoc(description).partition("\n\nexamples:\n")
    command.description = description.format(**inserted) if inserted else description
    command.epilog = f"examples:\n{examples}"


def add_action(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    **inserted: str,
) -> argparse.ArgumentParser:
    """Add a command below another one, which runs a function; the function's docstring is its help."""
    command = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
    describe(command, run.__doc__, **inserted)
    command.set_defaults(run=run)
    return command


def add_options(command: argparse._ActionsContainer, *options: tuple[str, Any, str]) -> None:
    """Add options, each given as its name and what its value is called, its default, and its help.

    A value is read as one of the default's type. A type or a function in place of the default reads the value
    of an option that is None when it is left out; with both, the pair is given. An option whose value has no
    name is true or false.

    >>> parser = argparse.ArgumentParser()
    >>> add_options(parser, ("--nodes N", 64, "(64)"), ("--trace FILE", Path, ""), ("--brief", False, ""))
    >>> parser.parse_args(["--nodes", "8"])
    Namespace(nodes=8, trace=None, brief=False)
    """
    for option, default, meaning in options:
        name, _, value = option.partition(" ")
        if not value:
            command.add_argument(name, action="store_true", help=meaning)
        elif callable(default):
            command.add_argument(name, type=default, metavar=value, help=meaning)
        else:
            read, given = default if isinstance(default, tuple) else (type(default), default)
            command.add_argument(name, type=read, default=given, metavar=value, help=meaning)


SEED = ("--seed S", (whole(0), 1), "where all randomness starts (1)")


def add_quarantine(command: argparse.ArgumentParser, meaning: str, default: Path | None = None) -> None:
    """Add the option `--quarantine`."""
    command.add_argument("--quarantine", type=Path, default=default, metavar="FILE", help=meaning)


def add_spark(command: argparse.ArgumentParser, log: str) -> None:
    """Add the options that say where Spark runs, and where its messages go by default."""
    add_options(
        command.add_mutually_exclusive_group(),
        (
            "--master URL",
            str,
            "the Spark master (default: the environment's, else all cores of this machine)",
        ),
        ("--remote URL", str, "a Spark Connect server, such as sc://host:15002"),
    )
    add_options(command, ("--log FILE", Path, f"where Spark's messages go (default: {log})"))


def console() -> Console:
    """Where tables are printed: as wide as the terminal, or of one width where there is none."""
    from rich.console import Console

    return Console(markup=False, width=None if sys.stdout.isatty() else WIDTH_OF_FILES)


def progress_shown() -> Progress:
    """Progress on standard error, when somebody is looking."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    errors = Console(stderr=True, markup=False)
    return Progress(
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


def say(text: str) -> None:
    """Tell something that is not output: on standard error."""
    print(text, file=sys.stderr)


def write_text(path: Path, text: str) -> None:
    """Write a file that was asked for, or standard output for `-`, and say so; an error says why not."""
    with opened_for_writing(str(path)) as stream:
        stream.write(text)
    if str(path) not in STANDARD_OUTPUT:
        say(f"wrote {path}")


def say_rejected(quarantine: Quarantine) -> int:
    """Tell what was set aside, if anything; gives the exit code that says so."""
    if quarantine.earlier is not None:
        say(f"what an earlier run had set aside is kept in {quarantine.earlier}")
    if not quarantine.count:
        return WELL
    for rejected in quarantine.samples:
        say(f"set aside: {rejected}")
    more = quarantine.count - len(quarantine.samples)
    say(f"{quarantine.count:,} set aside in {quarantine.path}" + (f" ({more:,} not shown)" if more else ""))
    return SET_ASIDE
