"""Quotes from a user's CSV file for the stock application: a time, a symbol and a price in each row.

Rows that cannot be parsed are rejected with their line and the reason; the others are used. Prices are
converted to whole cents, as in the dynamic-filter paper.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from random import Random
from typing import NamedTuple

from distributary.errors import DistributaryError, InputError
from distributary.model import Event
from distributary.workloads.quotes import chosen
from distributary.workloads.stock_days import StockQuote, StockTrace, arrivals, requests_of

CENT = Decimal("0.01")
MOST_TOLERANCE = 64


class Quote(NamedTuple):
    """A price of a symbol at a time, as the file has it; ordered by time."""

    time: float
    """Seconds since whatever moment the file counts from."""
    symbol: str
    price: int
    """In cents."""


class RejectedLine(NamedTuple):
    """A row that could not be parsed."""

    line: int
    reason: str
    row: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class QuoteFile(NamedTuple):
    """The quotes of a file in the order of time, and its rejected rows."""

    quotes: list[Quote]
    rejected: list[RejectedLine]


def read(path: str | Path) -> QuoteFile:
    """Read a file; DistributaryError when it does not exist or a column is missing."""
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as lines:
            return read_lines(lines)
    except OSError as error:
        raise DistributaryError(f"cannot read quotes from {path}: {error.strerror}") from None


def read_lines(lines: Iterable[str]) -> QuoteFile:
    """Parse rows, the first of which names the columns.

    >>> read = read_lines(["time,symbol,price", "60,OTE,8.41", "120,OTE,high"])
    >>> read.quotes, [str(each) for each in read.rejected]
    ([Quote(time=60.0, symbol='OTE', price=841)], ["line 3: price: not a number: 'high'"])
    """
    rows = csv.DictReader(lines)
    header = list(rows.fieldnames or [])
    for column in Quote._fields:
        if column not in header:
            raise DistributaryError(f"no column {column!r}; the columns are {', '.join(header) or 'none'}")
    found = QuoteFile([], [])
    for line, row in _rows(rows, found.rejected):
        try:
            found.quotes.append(_quote(row))
        except InputError as error:
            found.rejected.append(RejectedLine(line, str(error), ",".join(map(str, row.values()))))
    found.quotes.sort()
    return found


def trace(
    quotes: Sequence[Quote],
    *,
    seed: int,
    subscribers: int = 200,
    every_minutes: float = 10.0,
) -> StockTrace:
    """A run over these quotes: every symbol is a source, and subscribers choose among them evenly.

    Tolerances are spread evenly up to `MOST_TOLERANCE`.
    """
    if not quotes:
        raise DistributaryError("no quotes to run; give a file with at least one row that can be read")
    start = min(quote.time for quote in quotes)
    end = max(quote.time for quote in quotes) - start
    symbols = {symbol: number for number, symbol in enumerate(sorted({quote.symbol for quote in quotes}))}
    publications = [
        StockQuote(
            quote.time - start,
            symbols[quote.symbol],
            Event(f"q{number}", f"quotes/file/{quote.symbol}", {"price": quote.price}),
        )
        for number, quote in enumerate(sorted(quotes))
    ]
    random = Random(f"quote file {seed}")
    wishes = []
    for subscriber, time in arrivals(random, subscribers, every_minutes, end):
        topic = f"quotes/file/{random.choice(sorted(symbols))}"
        wishes.append((time, subscriber, topic, chosen(random, MOST_TOLERANCE, "uniform")))
    return StockTrace(publications, requests_of(wishes))


def _rows(
    rows: csv.DictReader[str], rejected: list[RejectedLine]
) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    """The rows with their line numbers; rows that are not CSV are rejected."""
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            rejected.append(RejectedLine(rows.line_num, f"not CSV: {error}", ""))
            continue
        yield rows.line_num, row


def _quote(row: Mapping[str, str | None]) -> Quote:
    given = {name: (row.get(name) or "").strip() for name in Quote._fields}
    for name, text in given.items():
        if not text:
            raise InputError("missing", field=name)
    symbol = given["symbol"]
    if "/" in symbol:
        raise InputError("has a slash, which separates the levels of a topic", field="symbol", text=symbol)
    return Quote(_time(given["time"]), symbol, _price(given["price"]))


def _time(text: str) -> float:
    """Parse seconds, or a date and time in ISO 8601, which is in UTC unless it has an offset."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            reason = "neither seconds nor a time such as 2003-09-12T14:30"
            raise InputError(reason, field="time", text=text) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds):
        raise InputError("not a finite number of seconds", field="time", text=text)
    return seconds


def _price(text: str) -> int:
    try:
        price = Decimal(text)
    except InvalidOperation:
        raise InputError("not a number", field="price", text=text) from None
    if not price.is_finite() or abs(price.adjusted()) > 15:
        raise InputError("not a number that a price can be", field="price", text=text)
    return round(price / CENT)
