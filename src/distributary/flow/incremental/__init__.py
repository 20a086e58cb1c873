"""Operators that run piece by piece: items and watermarks in, items and a watermark out.

In reading order:

- `running`: what every running operator has, and the rules that all of them keep.
- `operators`: filter, map, rename, copy, union, split, and functions of single items.
- `windows`: join, sort, truncate, unique, and functions of windows.
- `aggregates`: aggregate and count.
- `start`: the running operator of any operation.
- `graph`: connected operators that run together, such as all queries of a catalogue.
- `division`: what becomes of a running operator's memory when it is divided into replicas.

`operators`, `windows` and `aggregates` stand in `interpreter` too: there functions of mostly the same names
say what operations mean.
"""
