"""The index of the subscriptions on Spark: built on the driver or by tasks, found and opened by tasks.

- `find`: what travels with a task (`SparkIndex`) and how the task finds and opens the matcher that it needs.
- `plans`: the rendezvous plan of a store, which stays once it is made.
- `build`: what the driver does: find an index that is recent enough for the subscriptions, or build one;
  `parts`: building its parts, on the driver or by tasks;
  `repeated`: which subscription of a DataFrame counts when several have one id; `temporary`: where indexes
  are that last as long as the process.

An index is one *part*, or a rendezvous plan divides it into many. A part is a frozen matcher in a directory
that every task can read. An index is fixed, or it follows a subscription store; then it has *bases*, which
are matchers frozen at some version of the store, and tasks apply the changes since. Which base a task starts
from makes no difference to any answer, so anybody may add newer ones at any time.

Promises: a directory of a part or a base appears under its name only when it is complete. A part is checked
when it is opened, and is frozen with the name of its index, so that it is not taken for another. A damaged
base stops no task: it is removed, an older one serves, and the driver builds a new one.
"""
