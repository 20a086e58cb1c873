"""Trees over sites: what good means, what a tree costs, what a change is worth, and which tree to take.

`goal` and `goal_text` state what good means; `tree` is a tree and what is known of its sites; `cost` says
what a tree costs; `rules` are the changes to consider; `benefit` says what one is worth without measuring the
whole tree again, `bulk` for all pairs of sites at once; `optimiser` and `annealing` search as the seed does;
`escape` is the default; `optimum` knows the best tree where that can be known; `adaptation` keeps a tree good
while conditions drift.
"""
