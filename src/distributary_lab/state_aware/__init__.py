"""Experiments on 002, state-aware dissemination: SF (single-level filtering) and MFD (multi-level
filter decomposition).

- `stock_application`: runs the stock application on a network of one system; the others share it.
- `dissemination`: Figures 9 and 10: costs by distributions and by network size; and our thresholds.
- `random_walk`: how often values that walk at random pass a tolerance or the levels of MFD, computed.
- `balance`: beyond the document: segment lengths that follow the work of their items.

Figure 3 of 002, about path lengths on rings, is in `attributes.paths`.
"""
