"""Planning: which tree to build over some sites, and where the operators of queries should run.

In both cases a user states a goal, and the planner searches for the tree or the placement that meets it best.

- `goal`: the language in which goals are stated. It knows nothing of trees or queries.
- `trees`: dissemination trees. What they cost, rules that change them, and searches over these rules.
- `queries`: placements of operators over sites and their trees: costs, rules and searches. Uses `trees`.
- `pictures`: what pictures of both share. `amounts`: numbers as people read them, with their units.

The planner computes with numbers only: it touches no socket, and files only where a plan is read from one.
"""
