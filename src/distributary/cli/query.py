"""Runs the stream queries of a TOML file in a query network, and writes their answers as they come.

The sources of the file are registered at the broker, unless they are known: events for them may then be
published at any broker. The queries run until SIGTERM or Ctrl-C, or until --count items are written, and are
then withdrawn. Each item is a JSON object a line: {"stream", "id", "time", "rank", "attributes"}. Other
clients may subscribe to the streams, by the topic QUERY/OPERATOR.

examples:
  distributary query queries.toml --at 127.0.0.1:7000
  distributary query queries.toml --at 127.0.0.1:7000 --only busy --count 10 --out busy.jsonl
  distributary query queries.toml --at 127.0.0.1:7000 --sources
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, suppress
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, TextIO

from distributary.cli.arguments import whole
from distributary.cli.brokers import add_broker, client_of
from distributary.cli.terminal import WELL, add_options, describe, say
from distributary.errors import UsageError
from distributary.output import STANDARD

if TYPE_CHECKING:
    from distributary.flow import Catalogue, Query, Source
    from distributary.live.client_messages import ClientResult


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    command.add_argument("file", metavar="FILE", help="sources and queries, in TOML")
    add_broker(command, "--at")
    add_options(
        command,
        ("--only NAME", str, "this query alone (default: all of the file)"),
        ("--sources", False, "register the sources, and end"),
        ("--out FILE", STANDARD, "where to (default: - for standard output)"),
        ("--count N", whole(1), "end after so many items"),
    )
    command.set_defaults(run=_query)


def _query(parsed: argparse.Namespace) -> int:
    from distributary.flow import read_query_file

    catalogue = read_query_file(parsed.file)
    catalogue.check()
    queries = [] if parsed.sources else _in_order(catalogue)
    if parsed.only is not None:
        queries = [query for query in queries if query.name == parsed.only]
        if not queries:
            raise UsageError(f"{parsed.file} has no query {parsed.only!r}")
    out = sys.stdout if parsed.out == STANDARD else open(parsed.out, "a", encoding="utf-8")  # noqa: SIM115
    try:
        return asyncio.run(_run(parsed, list(catalogue.sources.values()), queries, out))
    finally:
        if out is not sys.stdout:
            out.close()


def _in_order(catalogue: Catalogue) -> list[Query]:
    """The queries, each after those whose streams it reads."""
    read: dict[str, set[str]] = {name: set() for name in catalogue.queries}
    for bound in catalogue.operators:
        inputs = {stream.partition(".")[0] for stream in bound.inputs}
        read.setdefault(bound.query, set()).update(inputs & catalogue.queries.keys() - {bound.query})
    order = TopologicalSorter(read).static_order()
    return [catalogue.queries[name] for name in order if name in catalogue.queries]


async def _run(parsed: argparse.Namespace, sources: list[Source], queries: list[Query], out: TextIO) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    written = 0
    with suppress(asyncio.CancelledError):
        async with client_of(parsed) as client, AsyncExitStack() as running:
            await client.register(*sources)
            answers = [await running.enter_async_context(client.query(query)) for query in queries]
            names = ", ".join(query.name for query in queries)
            say(f"queries run at {client.broker}: {names}" if names else f"registered at {client.broker}")
            async for result in _merged(answers):
                _write(out, result)
                written += 1
                if written == parsed.count:
                    break
    if queries:
        say(f"{written:,} items written")
    return WELL


async def _merged(answers: Sequence[AsyncIterator[ClientResult]]) -> AsyncIterator[ClientResult]:
    """The items of several answers, as they come."""
    waiting = {asyncio.ensure_future(anext(each)): each for each in answers}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                answer = waiting.pop(each)
                yield each.result()
                waiting[asyncio.ensure_future(anext(answer))] = answer
    finally:
        for each in waiting:
            each.cancel()


def _write(out: TextIO, result: ClientResult) -> None:
    item = result.item
    attributes = dict(item.attributes)
    record = {"stream": result.stream, "id": item.id, "time": item.time, "rank": item.rank}
    out.write(json.dumps(record | {"attributes": attributes}, ensure_ascii=False) + "\n")
    out.flush()
