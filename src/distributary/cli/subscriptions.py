"""The store is a directory, or a database by its URL: postgresql+psycopg://user@host/name, or
sqlite:////absolute/path.db. It is made by the first commit. Each commit makes the next version, which is
printed; a running pipeline uses it from its next micro-batch on.

examples:
  distributary subscriptions --store subs add --id s1 --subscriber ann --topic 'quotes/NYSE/*'
  distributary subscriptions --store subs import subscriptions.jsonl --replace
  distributary subscriptions --store subs list --subscriber ann
  distributary subscriptions --store subs remove s1 s2
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from distributary.cli import terminal
from distributary.cli.arguments import tolerance, whole
from distributary.errors import InputError
from distributary.files import read_subscriptions, write_records
from distributary.filters.kinds import added_kinds
from distributary.model import Subscription
from distributary.output import require_distinct
from distributary.quarantine import Quarantine, rejection
from distributary.store import SubscriptionStore, open_store
from distributary.store.repair import find_damage, find_plan_damage, repair


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    terminal.describe(command, __doc__)
    command.add_argument(
        "--store", required=True, metavar="LOCATION", help="a directory or the URL of a database"
    )
    where = "where derived files go (default: in the store's directory; for a database, the user's cache)"
    terminal.add_options(command, ("--workspace DIRECTORY", Path, where))
    actions = command.add_subparsers(title="actions", required=True, metavar="ACTION")
    _add_add(actions)
    removed = terminal.add_action(actions, "remove", "remove subscriptions", _remove)
    removed.add_argument("ids", nargs="+", metavar="ID", help="the ids of subscriptions")
    terminal.add_options(
        terminal.add_action(actions, "list", "list what is registered", _list),
        ("--subscriber NAME", str, "only those of this subscriber"),
        ("--version N", whole(0), "as of this version (default: the newest)"),
        ("--json", False, "JSON lines, which import can read"),
    )
    _add_import(actions)
    terminal.add_action(actions, "compact", "write a snapshot and sweep up", _compact)
    terminal.add_action(actions, "check", "read everything and tell what is damaged", _check)
    terminal.add_action(actions, "repair", "go on with what is whole", _repair)


def _add_add(actions: terminal.Commands[argparse.ArgumentParser]) -> None:
    action = terminal.add_action(actions, "add", "register a subscription", _add)
    action.add_argument("--id", required=True, help="the subscription's id")
    action.add_argument("--subscriber", required=True, metavar="NAME", help="who gets the deliveries")
    terminal.add_options(
        action,
        ("--topic PATTERN", str, "such as quotes/NYSE/*"),
        ("--where CONDITION", str, "such as 'price > 8.3 and price < 8.7'"),
        ("--path XPATH", str, "such as //item[author]"),
    )
    action.add_argument(
        "--change",
        action="append",
        type=tolerance,
        metavar="NAME=NUMBER",
        help="deliver only when that attribute has moved by more; may be given several times",
    )
    action.add_argument("--replace", action="store_true", help="replace the one that has this id")


def _add_import(actions: terminal.Commands[argparse.ArgumentParser]) -> None:
    action = terminal.add_action(actions, "import", "register the subscriptions of a file", _import)
    action.add_argument("file", metavar="FILE", help="the subscriptions")
    terminal.add_options(
        action,
        ("--replace", False, "replace those whose ids are registered"),
        ("--strict", False, "stop, and change nothing, at the first malformed one"),
    )
    terminal.add_quarantine(
        action, "malformed and refused ones go here (quarantine.jsonl)", Path("quarantine.jsonl")
    )


def _add(parsed: argparse.Namespace) -> int:
    """Registers one subscription: at least one filter, and those given must all hold.

    examples:
      distributary subscriptions --store subs add --id s1 --subscriber ann --topic 'quotes/NYSE/*' \\
          --where 'price > 8.3' --change price=0.05
    """
    given = {kind: getattr(parsed, kind) for kind in ("topic", "where", "path")}
    change = dict(parsed.change) if parsed.change else None
    subscription = Subscription.from_record(
        {"id": parsed.id, "subscriber": parsed.subscriber, **given, "change": change}
    )
    return _say_version(_store(parsed).commit([subscription], replace=parsed.replace))


def _remove(parsed: argparse.Namespace) -> int:
    """Removes all of those named, or none when one of them is not registered.

    examples:
      distributary subscriptions --store subs remove s1 s2
    """
    store = _store(parsed)
    store.version()  # to remove from a store that is not there must not make one
    return _say_version(store.commit(remove=parsed.ids))


def _list(parsed: argparse.Namespace) -> int:
    """Prints a line for each subscription: id, subscriber and filters, or its record as JSON.

    examples:
      distributary subscriptions --store subs list --subscriber ann
      distributary subscriptions --store subs list --version 3 --json > subscriptions.jsonl
    """
    store = _store(parsed)
    version = store.version() if parsed.version is None else parsed.version
    listed = (one for _, one in store.subscriptions(version) if parsed.subscriber in (None, one.subscriber))
    if parsed.json:
        count = write_records(sys.stdout, (one.to_record() for one in listed))
    else:
        count = 0
        for one in listed:
            filters = ", ".join(f"{kind} {_shown(given)}" for kind, given in one.filters().items())
            print(one.id, one.subscriber, filters, sep="\t")
            count += 1
    terminal.say(f"{count:,} subscriptions at version {version}")
    return terminal.WELL


def _import(parsed: argparse.Namespace) -> int:
    """Registers all that is well-formed in one commit, and sets the rest aside. The file holds JSON
    lines, a table when it ends in .parquet, .arrow or .feather, or CSV when it ends in .csv: its first line
    names the fields, and a tolerance is written price=0.05;volume=100 or as JSON. - is standard input.

    examples:
      distributary subscriptions --store subs import subscriptions.jsonl
      distributary subscriptions --store subs import wishes.csv
      distributary subscriptions --store subs import all.parquet --replace --quarantine bad.jsonl
    """
    places: list[str] = []
    require_distinct({"the subscriptions": parsed.file}, {"--quarantine": str(parsed.quarantine)})
    with (
        Quarantine(parsed.quarantine, strict=parsed.strict) as quarantine,
        terminal.progress_shown() as progress,
    ):
        task = progress.add_task("subscriptions", total=None)

        def read() -> Iterator[Subscription]:
            for place, subscription in quarantine.accept(read_subscriptions(parsed.file, added_kinds())):
                places.append(place)
                progress.advance(task)
                yield subscription

        def refused(position: int, subscription: Subscription, error: InputError) -> None:
            record = json.dumps(subscription.to_record(), default=str)
            quarantine.add(rejection(places[position], error, record))

        version = _store(parsed).commit(read(), replace=parsed.replace, refused=refused)
    _say_version(version)
    return terminal.say_rejected(quarantine)


def _compact(parsed: argparse.Namespace) -> int:
    """Writes a snapshot of the newest version, so that who opens the store next reads no long log, and
    sweeps up what killed processes left. No version is lost. Snapshots are also written by themselves
    as the log grows.

    examples:
      distributary subscriptions --store subs compact
    """
    return _say_version(_store(parsed).compact())


def _check(parsed: argparse.Namespace) -> int:
    """Reads every file of a store in a directory, with its snapshots and indexes, changes nothing, and tells
    what is damaged and which versions are lost. The directory may also be that of a frozen index. Ends with
    1 when something is damaged.

    examples:
      distributary subscriptions --store subs check
      distributary subscriptions --store frozen-index check
    """
    from distributary.matching.index_damage import find_base_damage, find_index_damage, frozen_indexes

    directory = Path(parsed.store)
    is_store = any((directory / part).exists() for part in ("store.json", "log"))
    if not is_store and (indexes := frozen_indexes(directory)):
        damage = find_index_damage(directory)
        terminal.say("\n".join(damage) or f"nothing is damaged: {len(indexes):,} frozen indexes are whole")
        return terminal.FAILED if damage else terminal.WELL
    store = _store(parsed)
    found = find_damage(store)
    bases = find_base_damage(store.workspace)
    derived = [*find_plan_damage(store).values(), *(line for lines in bases.values() for line in lines)]
    for line in derived:
        terminal.say(line)
    damaged = bool(found or derived)
    terminal.say(str(found) if damaged else f"nothing is damaged; {found}")
    return terminal.FAILED if damaged else terminal.WELL


def _repair(parsed: argparse.Namespace) -> int:
    """Sets damaged files of a store in a directory aside, and has the store go on with what is whole.

    Tells what was damaged and which versions are lost; put back a backup instead if there is one. Damaged
    indexes are removed, and built again when they are needed. Stop whatever uses the store before.

    examples:
      distributary subscriptions --store subs repair
    """
    from distributary.matching.index_damage import find_base_damage

    store = _store(parsed)
    found = repair(store)
    plans = find_plan_damage(store)
    bases = find_base_damage(store.workspace)
    for line in plans.values():
        terminal.say(f"not repaired: {line}")
    for base in bases:
        shutil.rmtree(base)
        terminal.say(f"removed, to be built again when it is needed: the damaged index {base}")
    if found:
        terminal.say(f"repaired:\n{found}")
    elif not plans and not bases:
        terminal.say("nothing was damaged")
    return terminal.FAILED if plans else terminal.WELL


def _store(parsed: argparse.Namespace) -> SubscriptionStore:
    return open_store(parsed.store, workspace=parsed.workspace)


def _say_version(version: int) -> int:
    print(f"version {version}")
    return terminal.WELL


def _shown(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
