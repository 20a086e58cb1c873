"""Formats of sources and sinks, and their options: what is misspelt is found before Spark is started.

Spark passes over options that it does not know, so `maxFilePerTrigger = 1` would read everything at once and
say nothing. Here a name that is near to a known one is a fault; one that is near to none may belong to a
newer Spark or to a format of somebody else, and is let pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from distributary import toml_files as toml

FILE_FORMATS = ("parquet", "orc", "json", "csv", "avro", "xml")
"""Formats of files in a directory: a batch is written exactly once, and reading a stream needs a schema."""
TABLE_FORMATS = ("delta", "iceberg")
"""Formats of sinks that are tables with transactions: a batch is written once."""
RAW_FORMATS = ("kafka", "socket", "text")
"""Formats whose rows hold the event as one raw `value`."""
FORMATS = (*FILE_FORMATS, *TABLE_FORMATS, *RAW_FORMATS, "rate", "hudi", "jdbc", "mqtt", "distributary")
"""Formats that somebody is likely to mean."""
NEAR = 0.8
"""How alike two names must be for one to be the other misspelt: 1 is the same."""

_FILE_STREAM = """maxFilesPerTrigger maxBytesPerTrigger latestFirst maxFileAge fileNameOnly cleanSource
sourceArchiveDir pathGlobFilter recursiveFileLookup ignoreCorruptFiles ignoreMissingFiles maxCachedFiles
discardCachedInputRatio path compression"""
_TEXTS = """timeZone locale encoding charset lineSep dateFormat timestampFormat timestampNTZFormat multiLine
enableDateTimeParsingFallback columnNameOfCorruptRecord mode samplingRatio"""
OPTIONS = {
    "parquet": f"{_FILE_STREAM} mergeSchema datetimeRebaseMode int96RebaseMode",
    "orc": f"{_FILE_STREAM} mergeSchema",
    "avro": f"{_FILE_STREAM} avroSchema avroSchemaUrl recordName recordNamespace ignoreExtension mode "
    "datetimeRebaseMode positionalFieldMatching",
    "json": f"{_FILE_STREAM} {_TEXTS} primitivesAsString prefersDecimal allowComments "
    "allowUnquotedFieldNames allowSingleQuotes allowNumericLeadingZeros allowBackslashEscapingAnyCharacter "
    "allowUnquotedControlChars dropFieldIfAllNull allowNonNumericNumbers ignoreNullFields "
    "maxNestingDepth maxNumLen maxStringLen writeNonAsciiCharacterAsCodePoint",
    "csv": f"{_FILE_STREAM} {_TEXTS} sep delimiter quote escape comment header inferSchema preferDate "
    "enforceSchema ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace nullValue nanValue positiveInf "
    "negativeInf maxColumns maxCharsPerColumn charToEscapeQuoteEscaping emptyValue quoteAll escapeQuotes "
    "unescapedQuoteHandling",
    "xml": f"{_FILE_STREAM} {_TEXTS} rowTag excludeAttribute attributePrefix valueTag nullValue "
    "ignoreSurroundingSpaces rowValidationXSDPath ignoreNamespace rootTag declaration arrayElementName",
    "text": f"{_FILE_STREAM} wholetext lineSep encoding",
    "kafka": "subscribe subscribePattern assign startingOffsets startingTimestamp startingOffsetsByTimestamp "
    "startingOffsetsByTimestampStrategy endingOffsets failOnDataLoss minPartitions maxOffsetsPerTrigger "
    "minOffsetsPerTrigger maxTriggerDelay maxRecordsPerPartition groupIdPrefix includeHeaders topic "
    "kafka.bootstrap.servers kafka.group.id kafka.security.protocol kafka.sasl.mechanism "
    "kafka.sasl.jaas.config kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs",
    "socket": "host port includeTimestamp",
    "rate": "rowsPerSecond rampUpTime numPartitions",
}
"""The options of formats, for reading and for writing."""
WHOLE = {
    "maxfilespertrigger",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "minpartitions",
    "maxcolumns",
    "port",
    "rowspersecond",
}
"""Options that take a whole number above 0."""
TRUTHS = {
    "latestfirst",
    "filenameonly",
    "recursivefilelookup",
    "ignorecorruptfiles",
    "ignoremissingfiles",
    "multiline",
    "header",
    "mergeschema",
    "failondataloss",
    "includeheaders",
    "wholetext",
}
"""Options that are true or false."""


def format_fault(name: str) -> str | None:
    """What is wrong with the name of a format, if it is one that is known misspelt.

    >>> format_fault("jsno"), format_fault("json"), format_fault("com.example.Source")
    ('is "jsno"; did you mean json?', None, None)
    """
    if name in FORMATS or "." in name:
        return None
    near = get_close_matches(name, FORMATS, n=1, cutoff=0.7)
    return f'is "{name}"; did you mean {near[0]}?' if near else None


def format_faults(format: str, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is wrong with a format and its options: key and text."""
    fault = format_fault(format)
    if fault is not None:
        yield "format", fault
    yield from option_faults(format, options)


def option_faults(format: str, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Options that are misspelt or have a value that they cannot have: key and text.

    >>> list(option_faults("json", {"maxFilePerTrigger": "1", "multiLine": "yes", "other": "1"}))
    [('options.maxFilePerTrigger', 'is no option of "json"; did you mean maxFilesPerTrigger?'), \
('options.multiLine', 'is "yes"; it must be true or false')]
    """
    known = {name.lower(): name for name in OPTIONS.get(format, "").split()}
    for name, value in options.items():
        plain = name.lower()
        if known and plain not in known:
            near = get_close_matches(plain, known, n=1, cutoff=NEAR)
            if near and not plain.startswith("kafka."):
                yield f"options.{name}", f'is no option of "{format}"; did you mean {known[near[0]]}?'
        elif plain in WHOLE and not (value.strip().isdecimal() and int(value) > 0):
            yield f"options.{name}", f'is "{value}"; it must be a whole number above 0'
        elif plain in TRUTHS and value.strip().lower() not in ("true", "false"):
            yield f"options.{name}", f'is "{value}"; it must be true or false'


def flat_settings(given: Any) -> Any:
    """Settings for Spark: dotted names may be quoted or not, values become strings."""
    if not isinstance(given, dict):
        return given
    flat = dict(_dotted(given))
    faults = [
        (name, f"is {toml.shown(value)}; it must be a string or a number")
        for name, value in flat.items()
        if not isinstance(value, str | int | float)
    ]
    if faults:
        raise toml.FaultyValueError(faults)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in flat.items()
    }


def _dotted(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a table and of the tables in it, by their dotted names."""
    for name, value in given.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
