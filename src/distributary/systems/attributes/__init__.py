"""Attribute subscriptions on a ring (004): conditions on typed attributes, filed by the values they ask for.

A subscription lives at its client's node, its home, which files its parts in lists under the keys of the
values that each part asks for. An event is looked up at the keys of its values.

- `schema`: the typed attributes, and values as numbered cells
- `parts`: a subscription as parts, each a conjunction of sets of values
- `identifier`: the id of a part, packed into one number (004, Figure 3)
- `messages`: what nodes send each other
- `filing`: how a home stores its parts, and moves them when they or the placements change
- `rendezvous`: the lists that a node keeps for others
- `placements`: which placement of values on the ring is in use, and how all nodes get to a new one
- `matching`: how an event finds its parts: by counting lists (004), or by the narrowest constraint (ours)
- `broker`: `AttributeBroker`, which puts these together

Promises: exact, and after faults exact again within a few refresh periods. Other rooms use `broker`,
`matching` and `schema`.
"""
