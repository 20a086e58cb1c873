"""The goal language: what a good tree or a good placement of queries is.

A goal aggregates what is measured in two or more steps into one number that shall be small or large, and may
set constraints. Trees and placed queries share the language; what can be measured belongs to
`plan.trees.goals` and `plan.queries.goals`, whose `parse_goal` and `parse_query_goal` read goals.

In reading order:

- `expression`: the model. `Goal`, `SystemCost`, `Constraint`, the expressions that they are made of, and
  evaluating these on plain numbers. Those who need many of its names import it as `goals`.
- `language`: what one kind of goal can say, as data.
- `text`: reading and writing goals.
- `units`: the unit of a goal's value.

`Place` is exported here: an application says with it where a metric of its own is measured.
"""

from distributary.plan.goal.expression import Place

__all__ = ["Place"]
