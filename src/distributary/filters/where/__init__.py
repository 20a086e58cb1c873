"""Conditions on an event's attributes: SQL's boolean expressions with SQL's three-valued logic.

How a condition gets from its text to an answer, in reading order:

- `values`: the kinds of values, how two of them compare, and how times are read and written
- `operations`, `geometry`: what can be computed of values: arithmetic, functions, casts; places on the earth
- `like`: patterns of LIKE
- `expression`: the tree that a condition is; `evaluate`: its truth for an event; `lookup`: what it finds
  there; `closures`: operands and leaves as functions, for whoever asks again and again
- `write`: the canonical text of a condition
- parse: `tokens` are what a text is cut into, `parse` gathers them, `precedence` says what belongs together
  and `build` what it means; `condition` keeps what was learnt of a text's shape, so that conditions that
  differ in names and literals alone are not parsed again
- match, for indexes: `domain` is a set of values of one attribute; `normal_form` turns a condition into
  conjunctions of domains, of which an event must satisfy one; `residue` is what no domain says
- cover: a conjunction of domains contains another (`domain.contains`)
- merge: `merge` makes fewer and wider conjunctions, and writes them as a condition again
- `selectivity`: a guess of how many events pass
- `filter`: `WhereFilter`, which all of these make up
"""
