"""Where Spark runs: in the tests' own session, or on another engine of Spark's in a process of its own.

`Sessions.run("local", function, *arguments)` calls `function(spark, *arguments)` with the session of the
fixture `spark`. "connect" (a Spark Connect server), "local-cluster[2,1,1024]" (separate executors), and the
addresses of a cluster (spark://...) and of a Connect server (sc://...) cannot share its process: there the
function is called in another one, which is started when it is first needed and kept. Function, arguments and
what it gives must be picklable; what it raises is raised here.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Concatenate, ParamSpec, TypeVar

from pyspark.sql import SparkSession

from spark.world import QUIET

LOCAL = "local"
CONNECT = "connect"
CLUSTER = "local-cluster[2,1,1024]"

P = ParamSpec("P")
T = TypeVar("T")


class Sessions:
    """The sessions of one test process."""

    def __init__(self, local: Callable[[], SparkSession]) -> None:
        self._local = local
        self._processes: dict[str, ProcessPoolExecutor] = {}

    def run(
        self,
        where: str,
        function: Callable[Concatenate[SparkSession, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function with a session, here or in the process of that engine."""
        if where == LOCAL:
            return function(self._local(), *args, **kwargs)
        if where not in self._processes:
            self._processes[where] = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        return self._processes[where].submit(_call, where, function, args, kwargs).result(timeout=600)

    def close(self) -> None:
        """Stop the engines that were started."""
        for where, process in self._processes.items():
            process.submit(_stop, where).result(timeout=60)
            process.shutdown()


_session: dict[str, SparkSession] = {}
"""The session of a process that has an engine of its own."""


def _call(where: str, function: Callable[..., T], args: Any, kwargs: Any) -> T:
    if where.startswith("sc://") and where not in _session:
        _session[where] = SparkSession.builder.remote(where).getOrCreate()
    elif where not in _session:
        builder = SparkSession.builder
        for key, value in QUIET.items():
            builder = builder.config(key, value)
        if where == CONNECT:
            _session[where] = builder.remote("local[2]").getOrCreate()
        else:
            _session[where] = builder.master(where).config("spark.executor.memory", "1g").getOrCreate()
    return function(_session[where], *args, **kwargs)


def _stop(where: str) -> None:
    if where in _session:
        _session.pop(where).stop()
