"""Segments of variable length: items with much work are spread over more nodes, others over fewer.

The paper (002) names this as future work (section 6): adjusting the length of each item's segment for
balance.

- `target`: how many nodes the work of an item should be spread over
- `change`: how an item's guard changes the length of its segment; what all systems share
- `answers`: whether everybody who was asked has answered
- `thresholds`: thresholds with such segments, whose guard knows the nodes that keep subscriptions
- `surveyed`: the same for systems whose guard asks for the work of its items
- `sf`, `mfd`: SF and MFD with such segments
"""
