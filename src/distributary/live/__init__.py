"""Nodes on real sockets: the same objects that the simulator runs.

Modules, in reading order:

- `hints`: what may stand in the place of a field, from the annotations of the messages.
- `codec`: messages as bytes, and bytes as messages.
- `frames`: messages in a stream of bytes.
- `greeting`: what nodes tell each other first, and who is refused.
- `security`: certificates, and what needs them.
- `client_messages`, `requests`, `client_line`, `clients`: what clients say and wait for, and how a broker
  serves them.
- `deliveries`: deliveries in frames, of which what many clients are given alike is written once.
- `direct_events`: events that come one at a time, given at once and published with others.
- `lines`, `link_faults`: links that are slow, or disturbed, on purpose.
- `connection`: one connection, from its greeting to its end.
- `peers`: what brokers ask each other beside what their nodes say.
- `links`: one connection to each node that a node talks to, with TLS, bounds and beats.
- `write_ahead`, `journal`, `node_name`: what a node keeps on its disk, and whose disk it is.
- `runner`: drives one node, by any clock and any network.
- `neighbours`: where other nodes listen, for when a node comes back.
- `kernel_process`: has kernels compiled, while brokers go on without them.
- `broker`: a broker of any system, on links. `handing_out`: what its node delivers, handed to clients.
- `settings`, `status`, `process`: a node as a process: its file, what it says of itself, its life.
- `event_loop`: how the process of a node is set up: its event loop, memory and garbage collector.
- `rates`: how often things happen.
- `local_network`, `network_view`: processes on this machine, started and stopped together, and
  what they tell, put together.

Promised to other rooms: what comes from a wire is a message of a known kind with fields of the right types,
or a `CodecError`, whatever the bytes were.
"""
