"""Brokers of a dissemination tree that can optimise itself for a goal while events flow (003, XPORT).

Modules, in reading order:

- `broker`: `TreeBroker`, a tree node that serves clients; `TreeAssembly` makes the brokers of one tree.
- `routes`: what children ask for, in an index.
- `resuming`: clients that come back are given what they missed.
- `settings`: `OptimisationSettings` says how a tree optimises itself, `Gauges` what brokers measure with.
- `optimiser`: `TreeOptimiser`, the part of a broker that optimises.
- `messages`: what optimising brokers tell each other, by purpose.
- `cost_model`: what of a goal each broker must know of the others; `node_limits`: constraints on the whole
  tree that are constraints on nodes.
- `known_sites`: what is known of brokers as the planner's sites; `stream_rates`: which streams come in.
- `statistics`: what a broker measures and hears from its neighbours; `broadcast`: what goes further along the
  tree.
- `parent_choice`: which parent a newcomer takes, so that the constraints stay kept.
- `partial_tree`: the part of the tree that a broker knows, as a small problem of the planner.
- `rewrite_search`: how a broker finds the best rewrite around it.
- `independence`: which rewrites may be carried out together.
- `rewrite_executor`: how the root has rewrites carried out.
- `feed_application`: web feeds over a tree: the root polls, and publishes what is new.

Other rooms use `TreeAssembly`, `OptimisationSettings`, `Gauges`, the groups of message kinds, and
`FeedApplication`.
"""
