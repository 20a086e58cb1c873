"""The console: pages on which people look at a broker, its network and its subscribers, and try things out.

Modules, in reading order:

- `recent`: the latest events, gathered while somebody looks.
- `view`: what the pages show, as plain values: counts, sessions, moves, a subscription tried out.
- `picture`: the neighbourhood of a node, drawn.
- `pipelines`: pipelines on Spark, asked how they are.
- `plans`: what `distributary plan` wrote.
- `operating`: the tabs for operators, with these two.
- `pages`: the pages themselves (NiceGUI).
- `serving`: the console as a part of the web server.

Promised to other rooms: a page shows nobody an event or a session that they may not see.
"""
