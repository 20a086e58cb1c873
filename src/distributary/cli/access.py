"""What an access file needs (docs/access.md). `hash` reads a password from the terminal without showing it,
or the first line of standard input, and prints what belongs into the file. `check` tells everything that is
wrong with an access file, or how many users and groups it has. `show` tells what one user may do.

examples:
  distributary access hash
  distributary access hash < password.txt
  distributary access check access.toml
  distributary access show access.toml ann
"""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path

from distributary.cli import terminal
from distributary.errors import UsageError


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    terminal.describe(command, __doc__)
    actions = command.add_subparsers(title="actions", required=True, metavar="ACTION")
    terminal.add_action(actions, "hash", "hash a password for an access file", _hash)
    checked = terminal.add_action(actions, "check", "tell what is wrong with an access file", _check)
    checked.add_argument("file", type=Path, metavar="FILE", help="an access file")
    shown = terminal.add_action(actions, "show", "tell what a user may do", _show)
    shown.add_argument("file", type=Path, metavar="FILE", help="an access file")
    shown.add_argument("user", metavar="USER", help="the user's name")


def _hash(parsed: argparse.Namespace) -> int:
    from distributary.edge.access.passwords import hash_password

    print(hash_password(_password()))
    return terminal.WELL


def _password() -> bytes:
    if not sys.stdin.isatty():
        return sys.stdin.buffer.readline().rstrip(b"\r\n")
    password = getpass.getpass("password: ")
    if getpass.getpass("again: ") != password:
        raise UsageError("the two passwords differ")
    return password.encode()


def _check(parsed: argparse.Namespace) -> int:
    from distributary.edge.access.rules import read_rules

    table = read_rules(parsed.file).table
    print(f"{parsed.file}: {len(table.users):,} users and {len(table.groups):,} groups; nothing is wrong")
    return terminal.WELL


def _show(parsed: argparse.Namespace) -> int:
    from distributary.edge.access.identity import Identity
    from distributary.edge.access.rules import read_rules

    rules, identity = read_rules(parsed.file), Identity(parsed.user)
    if rules.user(parsed.user) is None:
        raise UsageError(f"{parsed.file} has no user {parsed.user!r}")
    for purpose, grants in (
        ("subscribe", rules.subscribe_grants(identity)),
        ("publish", rules.publish_grants(identity)),
    ):
        for grant in grants.grants:
            said = ", ".join(f"{kind}: {filter.text}" for kind, filter in sorted(grant.filters.items()))
            print(f"{purpose}: {said or 'everything'}")
        if not grants.grants:
            print(f"{purpose}: nothing")
    return terminal.WELL
