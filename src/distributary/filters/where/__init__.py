"""Conditions on an event's attributes: SQL's boolean expressions with SQL's three-valued logic.

How a condition gets from its text to an answer, in reading order:

- `expression`: the tree that a condition is; how it is evaluated for an event, and its canonical text
- `like`: patterns of LIKE
- parse: `parse` reads any text with sqlglot's grammar; `condition` keeps what it learnt of the text's shape,
  so that conditions that differ in names and literals alone are not parsed again
- match, for indexes: `domain` is a set of values of one attribute; `normal_form` turns a condition into
  conjunctions of domains, of which an event must satisfy one
- cover: a conjunction of domains contains another (`domain.contains`)
- merge: `merge` makes fewer and wider conjunctions, and writes them as a condition again
- `selectivity`: a guess of how many events pass
- `filter`: `WhereFilter`, which all of these make up
"""
