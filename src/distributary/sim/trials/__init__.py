"""Trials: a system or a network of queries under a scenario, compared with what is right.

- `trial`: one of `systems.table.SYSTEMS` with a workload, compared with `sim.oracle`
- `query_trial`: queries at nodes whose operators move, compared with the interpreter
- `query_workload`: queries and events to try that with
"""
