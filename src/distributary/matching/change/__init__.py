"""Engines for tolerances: which subscriptions is an event news for, given what they were delivered before?

The modules, in reading order:

- `index`: `ChangeIndex`, the interface of all engines, and what the simple ones share
- `topics`: topics as small numbers, by which all engines remember
- `memory`: the values last delivered, as columns and as bytes
- `sf`: single-level filtering (SF) after the dynamic-filter paper: every member is compared with every event
- `decomposition`, `mfd`: multi-level filter decomposition (MFD) after the same paper: the sub-filters of a
  tolerance, and the index that shares them
- `thresholds`: the default engine, whose cost follows how many fire; `layout` has its arrays, `cells` and
  `firing` its kernels

`matching.engines` offers the engines by name; `systems.state_aware` uses `decomposition`. Nothing is exported
here, because the modules load Numba.
"""
