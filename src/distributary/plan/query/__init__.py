"""Stream queries in the network: which site runs which operator, what that costs, and what to move.

`graph` holds queries as numbers, `generator` makes the seed's; `placement` says where operators run over
which trees; `goal` and `goal_text` state what good means (Figure 5.4), `cost` measures it plainly.
"""
