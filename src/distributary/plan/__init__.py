"""Trees over sites: what good means, what a tree costs, what a change is worth, and which tree to take."""
