"""Protocols without I/O: nodes as state machines that the simulator drives.

Modules, in reading order:

- `node`: what a node is, how it is driven, and how layers are put on it.
- `periodic`: an alarm that rings again and again.
- `recent`: what was seen lately, by key.
- `packed_events`: events that came together, in the bytes they came in.
- `broker`: what a node that serves clients offers them.
- `kinds`: the number of each kind of message.
- `trace_text`, `recording`: what happens at a node as lines of text, and what they say.
- `wire`: how many bytes a message takes.
- `key_routing`: what layers above ask of a network that finds the owner of any key.
- `ring/`: a ring of nodes that finds the owner of any key, and keeps itself in order (Chord as corrected).
- `courier`: brings messages at least once to nodes that are up, and has each handled once.
- `replication`: keeps what belongs to a key at its owner and at the nodes that follow.
- `hypercube`: bit vectors as vertices of a hypercube, its spanning trees, and its place on a ring.
- `tree/`: a dissemination tree whose nodes change their parents without losing events.

Promised to other rooms: a node touches no socket, clock, disk or global random source; messages are immutable
and can be measured by `wire`; the order and number of a message's fields are its format.
"""
