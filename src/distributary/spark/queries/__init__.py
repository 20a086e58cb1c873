"""Stream queries on Spark: the operators of a `flow.Catalogue` as columns and groupings of DataFrames.

In reading order:

- `run`: `run_queries`, which users call, and the DataFrames of its streams;
- `intake`: which events belong to which source (as `flow.intake` does for single events);
- `plan`: which rows each operator needs of which frame, and in which stage;
- `sql`: expressions as SQL text; `conditions`: conditions, as SQL text or evaluated in Python;
- `aggregates`: the arithmetic of aggregates (as in `flow.aggregates`); `packed`: items of all streams in rows
  of one shape;
- `frames`: the DataFrames of a plan, with `explode` and `inputs` (the rows that tasks ask for), `stages` (the
  groupings) and `calls` (what runs in Python workers).

Promise: the items of a stream are those that `flow.interpreter` gives, in a batch and in a stream.
"""
