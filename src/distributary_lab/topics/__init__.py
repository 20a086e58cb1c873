"""Experiments on 000, matching of hierarchical topics by a tree, regular expressions and hashing.

- `matching`: Figures 5, 7 and 8: what matching, adding and removing cost, memory, and our index beside them.
- `tree_size`: Figure 6: nodes and edges of the tree.
"""
