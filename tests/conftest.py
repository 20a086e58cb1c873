"""How properties are run (no deadlines, a replay line, the same cases in CI), and the session of Spark."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engines.sessions import Sessions
    from kafka_server import KafkaServer

settings.register_profile(
    "house",
    max_examples=60,
    deadline=None,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

LONGEST_NAME = 60
STARTING_PROCESSES = ("test_demo.py", "test_elsewhere.py", "test_exactly_once.py")
WITH_ENGINES = ("/spark/pipeline/", "/spark/queries/")
"""Whose tests share a session with those of the engines; all others share another, in a process beside it."""


def pytest_configure(config: pytest.Config) -> None:
    """Tell `replay.chaos_seeds` whether anybody asks for chaos, whose seeds are thousands of tests."""
    asked = config.option.markexpr
    os.environ["DISTRIBUTARY_CHAOS"] = "" if "not chaos" in asked else "asked for"
    if ("chaos" in asked and "not chaos" not in asked) or os.environ.get("DISTRIBUTARY_CHAOS_REPORT"):
        from chaos.report import ChaosReport

        config.pluginmanager.register(ChaosReport(config), "chaos report")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings only where one is: looking for them imports the module."""
    found = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text(encoding="utf-8"):
        return [each for each in found if type(each) is pytest.Module]
    return found


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long text by its beginning: all processes tell each other the names of all tests."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAME:
        return f"{val[:LONGEST_NAME]!r}..."
    return None


@pytest.hookimpl(tryfirst=True)  # before the groups are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a session go to one process; those that start engines of their own to another."""
    for item in items:
        if item.path.as_posix().endswith(STARTING_PROCESSES):
            item.add_marker(pytest.mark.xdist_group("processes"))
            item.add_marker(pytest.mark.spark)
        elif "spark" in getattr(item, "fixturenames", ()):
            other = not any(folder in item.path.as_posix() for folder in WITH_ENGINES)
            item.add_marker(pytest.mark.xdist_group("other session" if other else "session"))
            item.add_marker(pytest.mark.spark)
        elif "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("kafka"))


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules and thousands of tests, which live to the end anyway."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # modules of others tell of what is left at the end


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests of a process."""
    from pyspark.sql import SparkSession

    from spark.world import QUIET

    builder = SparkSession.builder.master("local[2]").appName("tests").config("spark.driver.memory", "2g")
    for key, value in QUIET.items():
        builder = builder.config(key, value)
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = builder.config("spark.sql.warehouse.dir", str(warehouse)).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def session_of_commands(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this process run in the tests' session and leave it open: starting one takes long."""
    from distributary.spark.pipeline import run

    monkeypatch.setattr(run, "open_session", lambda *given, **named: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


@pytest.fixture(scope="session")
def sessions(request: pytest.FixtureRequest) -> Iterator[Sessions]:
    """The session of the tests and those of other engines of Spark's, each started when it is needed."""
    from engines.sessions import Sessions

    started = Sessions(lambda: request.getfixturevalue("spark"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A Kafka broker for all tests of a process; without one they are skipped with the reason."""
    from kafka_server import KafkaMissingError, KafkaServer

    try:
        server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    except KafkaMissingError as error:
        pytest.skip(str(error))
    try:
        server.start()
        yield server
    finally:
        server.stop()
