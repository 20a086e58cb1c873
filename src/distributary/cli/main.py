"""The command `distributary`: loads the command asked for, runs it, and turns errors into exit codes.

Only the module of the command asked for is loaded, so that `distributary --help` is quick and `distributary
match` loads no Spark, simulator or planner. Another package can add a command: an entry point of the group
`distributary.commands`, with the command's name and its module. `distributary lab` comes that way.

A command's module has a function `configure(command)`, which describes the command, adds its arguments, and
sets the default `run`: a function from the parsed arguments to an exit code. An added one has its line in the
list of commands as `SUMMARY`.

Exit codes: 0 all well; 1 the work could not be done (a file is missing, say); 2 the arguments are wrong;
3 done, but some input was malformed and set aside; 4 stopped at the first malformed input (`--strict`).
SIGTERM and Ctrl-C end a command in the same way, with 1; `distributary run` finishes its batch first.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import entry_points
from types import FrameType

from distributary import __version__
from distributary.cli.terminal import FAILED, MISUSED, STRICT, WELL, Commands
from distributary.errors import DistributaryError, UsageError
from distributary.quarantine import StrictError

COMMANDS = {
    "match": "match events against subscriptions",
    "check": "find what is misspelt, never matches, is slow or needless in subscriptions",
    "explain": "tell why an event matches a subscription or does not",
    "generate": "make event and subscription files",
    "demo": "the main job on data it makes itself",
    "subscriptions": "see and change what a subscription store holds",
    "run": "run a streaming pipeline",
    "outputs": "remove what a pipeline wrote long ago, or all that it has of a subscriber",
    "replay": "match subscriptions against the archive of a pipeline",
    "sim": "run a system in the simulator, under faults",
    "serve": "run a broker for MQTT and the web, with everything, in one process",
    "network": "start, show and stop a network of brokers on this machine",
    "node": "run a broker of a network",
    "publish": "publish events to a broker",
    "subscribe": "write the events that a broker gives to a subscription",
    "access": "make and check what an access file needs: hashes of passwords, the file itself",
    "query": "run stream queries in a query network, and write their answers",
    "plan": "who should forward to whom and where queries should run: the best over your sites",
}
"""Our own commands, each in the module of `distributary.cli` that has its name, and what it does."""

ADDED_COMMANDS = "distributary.commands"
"""The group of entry points by which other packages add commands."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name (default: those of the process); gives the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    parsed = _parser(given).parse_args(given)
    with _stopped_by_sigterm():
        try:
            code: int = parsed.run(parsed)
            return code
        except StrictError as error:
            print(f"distributary: stopped at the first malformed input: {error}", file=sys.stderr)
            return STRICT
        except UsageError as error:
            print(f"distributary: {error}", file=sys.stderr)
            return MISUSED
        except DistributaryError as error:
            print(f"distributary: {error}", file=sys.stderr)
        except BrokenPipeError:
            _discard_output()
            return WELL
        except OSError as error:
            _discard_output()
            what = f"{error.filename}: " if error.filename is not None else ""
            print(f"distributary: {what}{error.strerror or error}", file=sys.stderr)
        except MemoryError:
            print("distributary: there is not enough memory for this", file=sys.stderr)
        except KeyboardInterrupt as error:
            print(f"distributary: {error.args[0] if error.args else 'interrupted'}", file=sys.stderr)
        return FAILED


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Have SIGTERM end a command as Ctrl-C does: what was set aside until then is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt("terminated")

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _discard_output() -> None:
    """Let what is still to be written to standard output go nowhere: it cannot be written any more."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that knows the names of all commands, and the arguments of the one that is asked for."""
    parser = argparse.ArgumentParser(
        prog="distributary",
        description="Deliver streams to those who asked for them.",
        epilog="exit codes: 0 all well; 1 failed; 2 wrong arguments; 3 done, with malformed input set aside; "
        "4 stopped at malformed input (--strict)",
    )
    parser.add_argument("--version", action="version", version=f"distributary {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    asked_for = next((each for each in arguments if not each.startswith("-")), "")
    for name, summary in COMMANDS.items():
        command = _add(commands, name, summary)
        if name == asked_for:
            import_module(f"distributary.cli.{name}").configure(command)
    for entry in entry_points(group=ADDED_COMMANDS):
        if asked_for not in COMMANDS:
            module = entry.load()
            command = _add(commands, entry.name, module.SUMMARY)
            module.configure(command)
    return parser


def _add(commands: Commands[argparse.ArgumentParser], name: str, summary: str) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
