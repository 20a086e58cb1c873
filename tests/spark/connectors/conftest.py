"""The connectors need PySpark 4.2: with an older one there is nothing to test."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyspark.sql.streaming.datasource") else ["test_*.py"]
