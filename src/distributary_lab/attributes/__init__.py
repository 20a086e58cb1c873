"""Experiments on 004, attribute subscriptions on Chord, and Figure 3 of 002.

- `ring`: rings of the attribute system at rest, which the others share.
- `paths`: 002 Figure 3 and the lookups of 004: how long paths on a ring are.
- `matching`: the formulas of 004 sections 3.3 and 4.1: storing, updating and matching.
- `load`: beyond the document: small domains, and load balance under skew.
"""
