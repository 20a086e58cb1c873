"""A ring of nodes, each the owner of a stretch of keys: Chord as corrected by Zave, with fingers both ways.

Modules, in reading order:

- `circle`: identifiers and distances; `fingers`: whom a node knows far away, and whom it asks next.
- `segments`: how a stretch of the circle is divided among the nodes known in it.
- `ring`: `Ring`, which routes and multicasts to the owners of keys; `settle` makes a ring at rest.
- `prefix`: `PrefixRing`, the same with keys at the nearest node and routing by digits, as in Pastry.
- `upkeep`: `Upkeep`, which joins, stays in order and leaves, made of `stabilisation` (successors and
  predecessor), `finger_upkeep`, `merging` (rings that came apart), `questions` (what they ask others) and
  `contacts` (whom they remember).
- `invariants`: how the nodes of a ring differ from a ring at rest; for tests and simulations.
- `placement`: under which keys the values of an attribute are stored and looked up.
- `static`: path lengths on a ring at rest, for a million nodes at once, as arrays.

Other rooms use `Ring`, `Upkeep`, `Circle`, the finger rules, placements and `StaticRing`.
"""
