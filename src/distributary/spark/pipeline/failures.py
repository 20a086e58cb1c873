"""Why the engine failed, in one line. Spark says it in hundreds, and a Java that does not start in the log.

Rules: a failure in Python is told by the last line of the innermost traceback; one in Java by its innermost
cause that has a text; a format that Spark does not find by the package that has it.
"""

from __future__ import annotations

import re
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.spark.pipeline.config import Sink
from distributary.spark.pipeline.source import first_line

PACKAGES = {
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
    "avro": "org.apache.spark:spark-avro_2.13",
}
"""Formats that Spark does not bring along, and the packages that have them."""
NOT_FOUND = re.compile(
    r"Failed to find (?:the )?data source: ([\w.-]*\w)|ClassNotFoundException: (\w+)\.DefaultSource"
)
BUILT_IN = ("parquet", "orc", "json", "csv", "xml", "text")
"""Formats that every Spark has."""
JAVA_CALL = "An error occurred while calling"
CAUSE = re.compile(r"^(?:Caused by: |: )(?:[a-z]\w*\.)+(\w+)(?:: (.*))?$")
"""A line of a Java stack trace that names an exception, and what it says."""
OTHER_SOURCES = "sources in the checkpoint offsets and now there are"
NO_JAVA = ("JAVA_GATEWAY_EXITED", "Java gateway process exited")
COMPLAINTS = re.compile(r"\b(Error|Exception|Invalid|Too small|Unrecognized|Could not|not found|heap)\b")
"""Lines of a Java that does not start which say why."""


def failure(error: BaseException, log: Path, what: str = "pipeline", since: int = 0) -> DistributaryError:
    """An error that says in one line why something failed; the whole text goes to the log.

    `since` is how many bytes the log had before the engine was started: what a Java that did not start has
    said comes after them.
    """
    text = str(error)
    reason = said_by_java(log, since) if any(mark in text for mark in NO_JAVA) else None
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"{text}\n")
    return DistributaryError(f"the {what} failed: {reason or reason_of(text)} (all of it is in {log})")


def reason_of(text: str) -> str:
    """The line of Spark's many that says what went wrong.

    >>> reason_of("Job aborted.\\nTraceback (most recent call last):\\n  in x\\nValueError: no\\n\\nmore")
    'ValueError: no'
    >>> reason_of("An error occurred while calling o2.save.\\n: org.x.SparkException: it failed\\n"
    ...           "\\tat org.x\\nCaused by: java.nio.AccessDeniedException: /out\\n\\tat java")
    'AccessDeniedException: /out'
    """
    missing = NOT_FOUND.search(text)
    if missing is not None:
        return no_such_format(missing[1] or missing[2])
    if OTHER_SOURCES in text:
        return (
            "the checkpoint is of a release whose queries read the source another number of times: begin "
            "anew with another checkpoint and other outputs; what was archived can be replayed"
        )
    lines = [line.rstrip() for line in text.splitlines()]
    traces = [at for at, line in enumerate(lines) if line.endswith("Traceback (most recent call last):")]
    if traces:
        rest = lines[traces[-1] + 1 :]
        found = next((line for line in rest if line and not line[0].isspace()), None)
        if found:
            return (_java_cause(rest) if JAVA_CALL in found else None) or found
    if JAVA_CALL in text and (cause := _java_cause(lines)):
        return cause
    return first_line(text) if text.strip() else "for no reason that Spark tells"


def no_such_format(name: str) -> str:
    """What to say of a format that Spark does not find.

    >>> no_such_format("delta")
    'Spark has no format "delta": add its package, under [spark.conf] spark.jars.packages = \
"io.delta:delta-spark_2.13:VERSION", with a version that goes with your Spark'
    """
    package = PACKAGES.get(name.lower())
    if package is None:
        return f'Spark has no format "{name}": add the package that has it with spark.jars.packages'
    return (
        f'Spark has no format "{name}": add its package, under [spark.conf] spark.jars.packages = '
        f'"{package}:VERSION", with a version that goes with your Spark'
    )


def require_format(spark: SparkSession, sink: Sink) -> None:
    """Raise an error if Spark does not find the format of a sink, rather than fail at the first delivery."""
    if sink.format in BUILT_IN or sink.exactly_once or sink.is_table:  # the last two without Spark
        return
    try:
        # Whatever else may be wrong with this, Spark looks for the format first.
        spark.read.format(sink.format).load()
    except (PySparkException, Py4JError) as error:
        if NOT_FOUND.search(str(error)):
            raise DistributaryError(f"[sink] format: {reason_of(str(error))}") from None


def said_by_java(log: Path, since: int) -> str | None:
    """What a Java that did not start has said in the log, in a line; None if nothing that helps."""
    with log.open("rb") as stream:
        stream.seek(since)
        lines = stream.read().decode(errors="replace").splitlines()
    told = [line.strip() for line in lines if COMPLAINTS.search(line) and not line.startswith(("\t", " "))]
    unique = list(dict.fromkeys(told))
    return "Spark's Java did not start: " + "; ".join(unique[-3:]) if unique else None


def _java_cause(lines: list[str]) -> str | None:
    """The innermost cause with a text in the stack trace of Java."""
    causes = [found for found in map(CAUSE.match, lines) if found is not None and found[2]]
    return f"{causes[-1][1]}: {causes[-1][2]}" if causes else None
