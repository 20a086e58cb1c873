"""Seeded workloads: subscriptions and events like those of the seed documents, in any number.

Each module makes one workload with two functions of the same form:

    subscriptions(count, *, seed, ...) -> Iterator[Subscription]
    events(count, *, seed, ...)        -> Iterator[Event]

The same seed gives the same output on every machine.
"""
