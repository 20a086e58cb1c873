"""Stream queries in the network: which site runs which operator, what that costs, and what to move.

`graph` holds queries as numbers, `generator` makes the seed's and `catalogue` takes a catalogue's;
`placement` says where operators run over which trees; `goal` and `goal_text` state what good means (Figure
5.4), and `cost` measures it plainly. `state`, `forms` and `benefit` know what a change is worth without
measuring everything again; `rules`, `statistics` and `optimiser` search as the seed does; `baselines` and
`relaxation` are what one would have done without. `joint`, `shedding` and `adaptation` go beyond it.
"""
