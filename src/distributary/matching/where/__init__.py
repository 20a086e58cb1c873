"""Where indexes: which conditions does this event satisfy?

Ours, the default, and what it is made of, in reading order:

- `constraints`: conditions and rows as arrays, and whether a row satisfies a conjunction of constraints
- `cutting`, `recipes`, `column`: very many texts read at once, by their shapes
- `collecting`: conditions taken apart, on their way into a segment
- `evaluation`: what constraints cannot decide, which is evaluated
- `texts`: texts as numbers, so that a constraint on texts is a range of numbers like any other
- `plan`: which conjunctions are found by a rare value, and which through bitsets
- `keys`, `blocks`: these two ways, each with its tables and its search
- `predicates`, `formulas`: conditions as AND and OR of bits, for 64 rows at a time
- `programs`, `patterns`, `groups`: what the values of a row come to, without columns
- `rows`: formulas for one row or a few, from the values of an event
- `everywhere`: which conditions are evaluated in this way for every event
- `single`: one event as the kernels read it, and the conditions of a segment bound for it
- `visits`, `rough`: the blocks that one row meets, and bounds rounded to a few bits, which decide most
- `find`: the search for one event, in one kernel
- `plain_rows`, `few_rows`: a few rows of a table read from its buffers, and searched in one kernel
- `bitsets`: `WhereBitsets`, the index that puts them together
- `verifier`: conditions asked about single pairs only

`counting` is the matching algorithm of the attribute paper.

`matching.engines` says which index is used; this package exports nothing by itself, because kernels are slow
to load.
"""
