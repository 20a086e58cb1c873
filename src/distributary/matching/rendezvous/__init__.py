"""Rendezvous: dividing subscriptions among parts, so that one worker need not hold all of them.

A *part* holds some of the subscriptions and is matched by itself. A plan says in which parts a subscription
lives and which parts an event visits. Its promise: for every event and every subscription that matches it
there is exactly one part that the event visits and the subscription lives in.

The modules, in reading order:

- `keys`: what an event must have to match a subscription (a topic prefix, values, names), as fingerprints
- `census`: a sample of the keys of many subscriptions, from which a plan is made
- `parts`: ranges of parts, how they are given out, and the visits of a batch put together
- `topics`, `values`, `labels`: the parts for each kind of key
- `plan`: `Rendezvous`, which chooses a key for each subscription and combines all of the above

Other rooms use `plan.Rendezvous` and `census.SubscriptionCensus`. Nothing is exported here, because the
modules load Numba.
"""
