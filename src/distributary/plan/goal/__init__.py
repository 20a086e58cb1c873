"""The goal language: what a good tree or a good placement of queries is.

A goal aggregates what is measured in two or more steps into one number that shall be small or large, and may
set constraints. Trees and placed queries share the language; what can be measured belongs to
`plan.trees.goals` and `plan.queries.goals`, whose `parse_goal` and `parse_query_goal` read goals.

In reading order:

- `expression`: the model. `Goal`, `SystemCost`, `Constraint`, and the expressions that they are made of.
- `arithmetic`: evaluating expressions on plain numbers.
- `language`: what one kind of goal can say, as data.
- `text`: reading and writing goals.
"""

from distributary.plan.goal.arithmetic import OPERATIONS, combine, divide, fold
from distributary.plan.goal.expression import (
    COMPARISONS,
    Combination,
    Constraint,
    Direction,
    Expression,
    Goal,
    GoalAggregate,
    GoalConstant,
    GoalFunction,
    GoalMembers,
    Measure,
    Number,
    Place,
    Scope,
    SystemCost,
    names_in,
    parts,
    place_of,
)
from distributary.plan.goal.language import Language
from distributary.plan.goal.text import GoalReader, constraint_text, cost_text, goal_text

__all__ = [
    "COMPARISONS",
    "OPERATIONS",
    "Combination",
    "Constraint",
    "Direction",
    "Expression",
    "Goal",
    "GoalAggregate",
    "GoalConstant",
    "GoalFunction",
    "GoalMembers",
    "GoalReader",
    "Language",
    "Measure",
    "Number",
    "Place",
    "Scope",
    "SystemCost",
    "combine",
    "constraint_text",
    "cost_text",
    "divide",
    "fold",
    "goal_text",
    "names_in",
    "parts",
    "place_of",
]
