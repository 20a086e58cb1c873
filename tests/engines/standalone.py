"""A standalone cluster of Spark's from its package of PyPI: a master, two workers, a Connect server on them.

Each is a process that `spark-class` of the package starts, as `start-master.sh` and its like of a whole Spark
would. All of them end with the context.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from held_ports import HeldPorts

PATIENCE = 120.0
DEPLOY = "org.apache.spark.deploy"
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
WORKERS = 2


@dataclass(frozen=True)
class StandaloneCluster:
    """Where clients reach a cluster."""

    master: str
    """For `SparkSession.builder.master`."""
    remote: str
    """For `SparkSession.builder.remote`: a Connect server that is an application on the cluster."""


@contextmanager
def standalone_cluster(place: Path) -> Iterator[StandaloneCluster]:
    """A cluster as long as the context lasts; its processes write into a directory."""
    place.mkdir(parents=True, exist_ok=True)
    held = HeldPorts(2)
    port, connect = held.numbers
    master = f"spark://127.0.0.1:{port}"
    commands = {"master": [f"{DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port)]}
    for number in range(WORKERS):
        options = ["--host", "127.0.0.1", "--cores", "2", "--memory", "2g", "--work-dir", str(place / "work")]
        commands[f"worker {number}"] = [f"{DEPLOY}.worker.Worker", *options, master]
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(connect),
        "spark.cores.max": "2",  # one of each worker, so that an application beside it has as many
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submit = [f"{DEPLOY}.SparkSubmit", "--master", master, "--class", CONNECT_SERVER, *settings]
    commands["connect"] = [*submit, "spark-internal"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, command in commands.items():
            started.append(_started(place / f"{name}.txt", command))
            if name == "master":
                _wait_for(started[-1], port, place / f"{name}.txt")
        _wait_for(started[-1], connect, place / "connect.txt")
        yield StandaloneCluster(master, f"sc://127.0.0.1:{connect}")
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(PATIENCE)


def _started(said: Path, command: list[str]) -> subprocess.Popen[bytes]:
    home = Path(str(pyspark.__file__)).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "640m",  # the Connect server's, too, which is refused less than 450
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with said.open("ab") as output:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
        )


def _wait_for(process: subprocess.Popen[bytes], port: int, said: Path) -> None:
    """Wait until somebody listens at a port."""
    end = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < end, said.read_text()
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            time.sleep(0.1)
