"""From a DataFrame of events to the sources of queries: which rows belong to which, what fits, what does not.

An event belongs to a source as `flow.language.source` says. Its columns have types, so most rejections are a
matter of the DataFrame's schema: a column of another type fits only where it is null. A timestamp fits the
attribute that holds a source's time, as milliseconds. An event without an id, with a malformed topic or in a
row that could not be read belongs to no source; `rejected` of `match` shows those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from distributary.filters.topic import TopicFilter
from distributary.filters.where.expression import attributes_of
from distributary.filters.where.filter import WhereFilter
from distributary.flow.language.schema import MAX_TIME, Type
from distributary.flow.language.source import Source
from distributary.flow.language.topics import TOPIC
from distributary.spark.columns import EventColumns, quoted
from distributary.spark.places import REASON, SOURCE_PLACE
from distributary.spark.queries import sql
from distributary.spark.queries.conditions import condition_sql
from distributary.spark.queries.plan import EVENTS, ColumnSheet, StreamBranch
from distributary.spark.queries.sql import SQL_TYPES, Value, literal, text_literal

INFINITE = "double('Infinity')"
TIMES = (T.TimestampType, T.TimestampNTZType)
WITHOUT_ARROW = (T.YearMonthIntervalType, T.CalendarIntervalType, T.VariantType, T.StructType)
"""Types that are not handed to Python: Arrow has none for them, or their fields have columns of their own."""


@dataclass(frozen=True)
class EventIntake:
    """Events with the columns that sources look at, the sheet over them, and the sources' branches."""

    events: DataFrame
    sheet: ColumnSheet
    sources: Mapping[str, StreamBranch]
    rejections: Mapping[str, str]
    """For each source the column that holds what does not fit in an event that belongs to it, or null."""


def take_in(events: DataFrame, columns: EventColumns, sources: Iterable[Source]) -> EventIntake:
    """Which events belong to which sources, as columns of a sheet; nothing is computed yet."""
    given = list(sources)
    others = (columns.id, columns.topic, columns.document, columns.corrupt, SOURCE_PLACE, REASON)
    attributes = T.StructType([field for field in events.schema if field.name not in others])
    paths = dict(_flat(attributes))
    names = dict.fromkeys(name for source in given for name in _looked_at(source) if name in paths)
    aliases = {name: (f"a{number}", paths[name][1]) for number, name in enumerate(names)}
    readable = events
    if columns.corrupt is not None and columns.corrupt in events.columns:
        readable = events.where(f"{quoted(columns.corrupt)} is null")
    else:
        texts = [field.name for field in events.schema if isinstance(field.dataType, T.StringType)]
        valid = (f"coalesce(is_valid_utf8({quoted(name)}), true)" for name in texts)
        readable = events.where(" and ".join(["true", *valid]))
    topic = "cast(null as string)"
    if columns.topic in events.columns:
        topic = f"cast({quoted(columns.topic)} as string)"
    bare = readable.selectExpr(
        f"cast({quoted(columns.id)} as string) as event_id",
        f"{topic} as event_topic",
        *(f"{paths[name][0]} as {alias}" for name, (alias, _) in aliases.items()),
    )
    sheet = ColumnSheet("e")
    well = sheet.add(
        f"event_id is not null and (event_topic is null or {sql.well_formed_topic('event_topic')})"
    )
    entries = {source.name: _entry(source, sheet, well, aliases) for source in given}
    return EventIntake(
        bare,
        sheet,
        {name: branch for name, (branch, _) in entries.items()},
        {name: rejection for name, (_, rejection) in entries.items()},
    )


TypedColumn = tuple[str, T.DataType]
"""A column as SQL, and its type on Spark."""
Columns = Mapping[str, TypedColumn]
"""The attributes that events have."""


def _looked_at(source: Source) -> list[str]:
    tested = attributes_of(WhereFilter.parse(source.where).expression) if source.where is not None else ()
    return [*source.schema.attributes, *tested]


def _flat(
    schema: T.StructType, name: str = "", path: str = ""
) -> Iterator[tuple[str, tuple[str, T.DataType]]]:
    """Every field with its path and type; the fields of a struct, which follow it, have dotted names."""
    for field in schema.fields:
        inner, place = name + field.name, path + quoted(field.name)
        yield inner, (place, field.dataType)
        if isinstance(field.dataType, T.StructType):
            yield from _flat(field.dataType, f"{inner}.", f"{place}.")


def _entry(source: Source, sheet: ColumnSheet, well: str, columns: Columns) -> tuple[StreamBranch, str]:
    """The branch of a source, and the column with the rejection of an event that belongs to it."""
    tests = ["false"] if source.derived else [well]
    if source.topic is not None:
        passed = sql.topic_sql(TopicFilter.parse(source.topic), "event_topic")
        tests.append(f"coalesce({passed}, false)")
    if source.where is not None:
        seen = _with_own(columns)
        condition = condition_sql(WhereFilter.parse(source.where).expression, _compared(seen), _raw(seen))
        tests.append(f"coalesce({condition}, false)")
    accepted = sheet.add(" and ".join(tests), well)
    time = sheet.add(_value(source.schema.time, Type.INTEGER, columns, time=True)[0])
    rejection = sheet.add(f"if({accepted}, {_rejection(source, time, columns)}, null)", accepted, time)
    present = sheet.add(f"{accepted} and {rejection} is null", accepted, rejection)
    values = {
        name: _value(name, type, columns)
        for name, type in source.schema.attributes.items()
        if name != source.schema.time
    }
    return StreamBranch(EVENTS, source.name, present, "event_id", time, "0", values), rejection


def _with_own(columns: Columns) -> Columns:
    """The attributes, and the event's id and topic where no attribute is called so."""
    seen = dict(columns)
    for name, own in (("id", "event_id"), ("topic", "event_topic")):
        column, type = columns.get(name, (own, T.StringType()))
        if isinstance(type, T.StringType):
            seen[name] = f"coalesce({column}, {own})", type
    return seen


def _compared(columns: Columns) -> dict[str, Value]:
    """The attributes as conditions see them: NaN, and what is of no type of ours, compares with nothing."""
    values: dict[str, Value] = {}
    for name, (column, type) in columns.items():
        match type:
            case T.StringType():
                values[name] = column, Type.TEXT
            case T.BooleanType():
                values[name] = column, Type.BOOLEAN
            case T.IntegralType():
                values[name] = f"cast({column} as bigint)", Type.INTEGER
            case T.DoubleType() | T.FloatType():
                values[name] = f"nanvl(cast({column} as double), cast(null as double))", Type.NUMBER
            case _:
                values[name] = column, None
    return values


def _raw(columns: Columns) -> dict[str, str]:
    """The attributes themselves; of what Arrow has no type for, that it is there."""
    opaque = "if({0} is null, null, array(1))"
    return {
        name: opaque.format(column) if isinstance(type, WITHOUT_ARROW) else column
        for name, (column, type) in columns.items()
    }


FITTING: dict[Type, tuple[type[T.DataType], ...]] = {
    Type.TEXT: (T.StringType,),
    Type.INTEGER: (T.IntegralType,),
    Type.NUMBER: (T.IntegralType, T.DoubleType, T.FloatType, T.DecimalType),
    Type.BOOLEAN: (T.BooleanType,),
}


def _value(name: str, type: Type, columns: Columns, *, time: bool = False) -> Value:
    """An attribute as its source's schema has it; null where the column cannot hold such values."""
    column, found = columns.get(name, ("null", None))
    if name == TOPIC and type is Type.TEXT:
        named = column if isinstance(found, T.StringType) else literal(None, type)
        return f"coalesce(event_topic, {named})", type
    if time and isinstance(found, TIMES):
        return f"unix_millis(cast({column} as timestamp))", type
    if not isinstance(found, FITTING[type]):
        return literal(None, type), type
    text = f"cast({column} as {SQL_TYPES[type]})"
    return (f"({text} + 0D)" if type is Type.NUMBER else text), type


def _rejection(source: Source, time: str, columns: Columns) -> str:
    """The first attribute that does not fit, and why, as a struct; null when all fit."""
    declared = f", as source '{source.name}' declares it"
    tests = []
    for name, type in source.schema.attributes.items():
        column, found = columns.get(name, ("null", None))
        if (
            found is None
            or isinstance(found, T.StructType)
            or (name == source.schema.time and isinstance(found, TIMES))
        ):
            continue
        if not isinstance(found, FITTING[type]):
            shown = f"to_json(named_struct('value', {column}))"
            shown = f"substring({shown}, 10, length({shown}) - 10)"
            reason = f"concat({shown}, {text_literal(f' is not of type {type}{declared}')})"
            held = " and event_topic is null" if name == TOPIC and type is Type.TEXT else ""
            tests.append((f"{column} is not null{held}", name, reason))
        elif isinstance(found, T.DoubleType | T.FloatType):
            reason = f"concat(cast({column} as string), {text_literal(' is no finite number' + declared)})"
            tests.append((f"isnan({column}) or abs({column}) = {INFINITE}", name, reason))
    late = f", where source '{source.name}' needs the time in milliseconds since 1970"
    told = f"concat('is ', coalesce(cast({time} as string), 'null'), {text_literal(late)})"
    beyond = f"{time} is null or abs({time}) > {literal(MAX_TIME)}"
    tests.append((beyond, source.schema.time, told))
    cases = " ".join(
        f"when {test} then named_struct('field', {text_literal(name)}, 'reason', {reason})"
        for test, name, reason in tests
    )
    return f"case {cases} end"
