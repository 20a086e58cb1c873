"""The reference interpreter: each operation as a function of whole streams, written as plainly as can be.

It defines what queries mean; every engine is checked against it. Streams are lists of items in stream order.
Nothing is incremental and nothing is fast: an aggregate looks at every item for every window.

In reading order:

- `queries`: `answer`, `interpret` and `apply`, and which function says what an operation means.
- `operators`: filter, map, rename, copy, union, split, and functions of single items.
- `windows`: join, sort, truncate, unique, and functions of windows.
- `aggregates`: aggregate and count.

`operators`, `windows` and `aggregates` stand in `incremental` too: there functions of mostly the same names
make the running operators.
"""

from __future__ import annotations

from distributary.flow.interpreter.queries import QueryAnswer, answer, apply, interpret

__all__ = ["QueryAnswer", "answer", "apply", "interpret"]
