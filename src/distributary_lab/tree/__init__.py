"""Experiments on chapter 4 of 003, dissemination trees that are improved by rewriting rules.

- `networks`: the sites; `climbs`: goals, and climbs turned into rows. The others share them.
- `latency`: Figures 4.7, 4.8, 4.20 to 4.22 and Table 4.7: total, average and maximum latency.
- `scope`: Figures 4.24 to 4.27: how far a site must see.
- `load`: Figure 4.23: sites under load; and, beyond the document, links that drift.
- `bottleneck`: Figures 4.11 to 4.17: the widest tree; `bottleneck_limits`: Figure 4.19: limited fanout;
  `bottleneck_annealing`: Figure 4.18 and Table 4.9: against simulated annealing.
- `redundancy`: Table 4.8, Figures 4.9 and 4.10: redundant data and bandwidth under limits.
- `traffic`: Figures 4.28 to 4.31: what it takes a live tree to optimise itself.
"""
