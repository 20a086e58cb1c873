"""Nodes on real sockets: the same objects that the simulator runs.

Modules, in reading order:

- `hints`: what may stand in the place of a field, from the annotations of the messages.
- `codec`: messages as bytes, and bytes as messages.

Promised to other rooms: what comes from a wire is a message of a known kind with fields of the right types,
or a `CodecError`, whatever the bytes were.
"""
