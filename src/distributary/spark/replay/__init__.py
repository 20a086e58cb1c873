"""Replay: subscriptions over the archive of a pipeline, with what the live stream gave or would have given.

- `replay`: the three questions that can be asked (`replay`, `catch_up`, `as_if_subscribed`), and the rules;
- `history`: the finished batches of a pipeline, and what the archive has of them;
- `matching`: subscriptions matched against archived events, each in the batches that it is to see;
- `explain`: why an archived event was given to a subscription, or not, without a session;
- `run`: `distributary replay`, with a session of its own and an output.

Promise: what is replayed is what the live stream computed; what the archive lacks is an error, never an empty
answer. docs/replay.md has the semantics in full.
"""
