"""The language of stream queries: what can be said, checked, and written down.

In reading order:

- `schema`: items, types, and the schema of a stream.
- `topics`: the topics that items are published under.
- `source`: which events belong to a stream, and how an event becomes an item.
- `expression`: the tree, the types, the value and the text of an expression; `parse` reads one from SQL.
- `window`: windows by time and by number of items.
- `operators`: what every operation knows, and the operations on single items.
- `windowed`: aggregate, count, join, sort, truncate, unique.
- `function`: functions of the user's as operations.
- `identifiers`: the ids of derived items.
- `query`: operators with names and inputs; `QueryBuilder`. `units`: super-operators.
- `file`: sources and queries from TOML.
- `problems`: faults with their places, gathered so that all are told together.
"""
