"""Deliveries in tables: Delta and Iceberg, each batch once, by the tables' own transactions.

In reading order:

- `table`: `DeliveryTable`, what every table promises; the rows of a batch, and whether a table can hold them
- `delta`: a Delta table, with the number of the batch as the version of an application's transaction
- `iceberg`: an Iceberg table, with the number of the batch as a property that the snapshot's commit sets
- `sink`: which of them the sink of a pipeline means; writing a batch, and checks before the start

The driver writes, and Spark has no part in it, so no JAR is needed: `pip install 'distributary[tables]'`.
"""
