"""State-aware dissemination (002): a value is delivered only to those for whom it has moved far enough.

- `segments`: where an item and its tolerances lie on the ring
- `order`: which value is newer, without clocks that agree; the latest values
- `latest`: the latest values at a node, with those that it missed
- `broker`: what the systems share: registering, values and their order, the home's decision
- `sf`: single-level filtering (SF): each value goes to the item's whole segment
- `mfd`: multi-level filter decomposition (MFD): a value climbs from level to level, as far as it passes
- `sub_filters`: the sub-filters of MFD at the node that keeps them
- `directory`: the subscriptions of an item, ordered by the values at which they fire
- `thresholds`: ours: a value goes only where somebody takes it, and publishers hold leases on quiet ranges
- `lengths`: thresholds, SF and MFD with segments whose length follows their work

Promises: SF and thresholds are exact; MFD delivers other values than SF and keeps the bound of Theorem 1.
"""
