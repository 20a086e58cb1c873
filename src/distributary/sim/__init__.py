"""A deterministic simulator for overlay nodes: one thread, one seed, one trace.

In reading order:

- `simulator`: runs nodes in virtual time, and tells observers what happens
- `latency`, `underlay`, `networks`: how long messages take: models, a network of routers, and both by name
- `disks`: what nodes store, how long that takes, and what a crash loses of it
- `processor`: how long a node of a query network takes over an item
- `trace`: all that happens as lines of text, and where two traces part
- `replaying`: what recorded nodes did, done again
- `metrics`: messages, bytes and hops, by kind, node and operation
- `population`: nodes that start, crash, come back and leave
- `deployment`: a publish-subscribe system with its clients, and what its operations cost
- `faults`: what can go wrong, injected from the seed and counted
- `scenario`: faults that belong together, and which of them must fire
- `evaluation`: whether an event matches a subscription, without the filters of the systems
- `oracle`: who must get an event, by brute force
- `trials/`: one system, one scenario, one workload, checked

Same seed, same trace, byte for byte, in every process. A run that meant to inject a fault and did not has
failed.
"""
