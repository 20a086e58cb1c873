"""Streams of Parquet files for tests, each file a micro-batch, and how such a stream is run to its end."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from spark.world import EVENT_DDL, World


class Feed:
    """A directory of Parquet files that a stream reads one by one, each a micro-batch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.count = 0
        directory.mkdir(exist_ok=True)

    def write(self, world: World, start: int, end: int) -> None:
        name = f"{self.count:05d}.parquet"
        hidden = self.directory / ("." + name)
        pq.write_table(world.table().slice(start, end - start), hidden)
        # A stream takes files in the order of their times, which clocks too coarse may make the same.
        os.utime(hidden, (1_700_000_000 + self.count, 1_700_000_000 + self.count))
        hidden.rename(self.directory / name)
        self.count += 1

    def stream(self) -> DataFrame:
        return (
            self.spark.readStream.schema(EVENT_DDL)
            .option("maxFilesPerTrigger", 1)
            .option("latestFirst", "false")
            .parquet(str(self.directory))
        )


def run(frame: DataFrame, place: Path) -> None:
    """Let a stream take all that is there."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def chunks(random: Random, total: int, inner: int = 4) -> list[tuple[int, int]]:
    """Cut points between records of different `at`, since order within the same one goes by id."""
    cuts = sorted({0, total, *(2 * random.randrange(total // 2) for _ in range(inner))})
    return list(pairwise(cuts))
