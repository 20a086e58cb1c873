"""Systems that deliver events across many nodes, put together from filters, matching and overlays.

One broker class a system, each a layer on a node of `overlay`: `subscribe`, `unsubscribe` and `publish` are
what its clients call. Nothing here touches a socket or a clock; `sim` runs the nodes.

What systems share, in reading order:

- `kernel_use`, `rehearsal`: whether kernels may be called, and how they are all compiled beforehand
- `interests`: the filters of many subscriptions, asked all at once
- `residents`: the subscriptions of a node's clients, and what their tolerances remember
- `home`: the subscriptions of a node's clients, and the decision what is delivered to them
- `publishing`: what a broker looks at before it lets an event into the network
- `ring_broker`: the base classes of the brokers on a ring
- `assembly`: the layers of a node together: ring, courier, upkeep, broker
- `options`: the settings of each system that a user may choose by name
- `table`: `SYSTEMS`, every system by name, with what it is and promises
- `places`: where a node stands among the others
- `membership`: a node that founds a network or joins one by itself

The systems:

- `flooding`, `central`, `lookups`: baselines: every event everywhere, one rendezvous, the ring alone
- `attributes/`: conditions on attributes, filed on a ring (004)
- `state_aware/`: tolerances on moving values, on a ring (002)
- `hope/`: XML events by their structure, over a hypercube (001)
- `tree/`: trees that optimise themselves (003, XPORT)
- `queries/`: stream queries whose operators move between nodes (003, XFlow)
"""
