"""Subscriptions that come from a table, which is followed as it changes.

In reading order:

- `settings`: the table `[follow]` of a pipeline's file
- `readers`: the rows of a Delta table, of Parquet or CSV files, or of a database through Spark's JDBC
- `follow`: what has changed becomes one commit to the store; what is malformed is set aside

Promise: after a look the store holds the well-formed rows of one state of the table, and nothing else, and
got there by one commit; a table that cannot be read changes nothing.
"""
