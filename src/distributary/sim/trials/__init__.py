"""Trials: a system or a network of queries under a scenario, checked against the right answers.

- `run`: what both share: running with progress, and the command that repeats a trial
- `trial`: one of `systems.table.SYSTEMS` with a workload
- `clients`: what its clients ask for and publish, with ids that collide
- `audit`: checks every delivery of it, and what is missing, with `sim.oracle`
- `promise`: nodes fail one after the other, and what was acknowledged must reach whom it is owed to, once
- `query_trial`: queries at nodes whose operators move, checked with the interpreter
- `query_workload`: queries and events for that
- `query_answers`: what its clients must get
- `query_traffic`: its traffic by what it is for
"""
