"""Nodes on real sockets: the same objects that the simulator runs.

Modules, in reading order:

- `hints`: what may stand in the place of a field, from the annotations of the messages.
- `codec`: messages as bytes, and bytes as messages.
- `frames`: messages in a stream of bytes.
- `greeting`: what nodes tell each other first, and who is refused.
- `security`: certificates, and what needs them.
- `client_messages`, `clients`: what clients say, and how a broker serves them.
- `connection`: one connection, from its greeting to its end.
- `links`: one connection to each node that a node talks to, with TLS, bounds and beats.
- `runner`: drives one node, by any clock and any network.
- `broker`: a broker of any system, on links.
- `settings`, `status`, `process`: a node as a process: its file, what it says of itself, its life.
- `local_network`: processes on this machine, started and stopped together.

Promised to other rooms: what comes from a wire is a message of a known kind with fields of the right types,
or a `CodecError`, whatever the bytes were.
"""
