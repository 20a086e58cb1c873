"""Subscriptions held against a schema: what is misspelt, can never match, is slow or superfluous.

    from distributary.filters.lint.lint import lint
    from distributary.filters.lint.schema import EventSchema

    for finding in lint(subscriptions, EventSchema.of_ddl("price double, at timestamp, tags array<string>")):
        print(finding)

Nothing here changes what a subscription means, and nothing is refused. In reading order:

- `findings`: `Finding`, what is said of a subscription, and how grave it is
- `schema`: `EventSchema`, what events have: from an Arrow schema, a DDL text of Spark's, or sampled events
- `ddl`: how Spark's texts of schemas are read
- `kinds_of`: which kinds of values an operand of a condition can have
- `conditions`: what is said of a condition
- `covering`: which subscriptions another one of the same subscriber makes needless
- `lint`: all of these over many subscriptions
"""
