"""MQTT 3.1.1 and 5: devices publish and subscribe with the clients that they have.

Modules, in reading order:

- `packets`: the packets of both versions in one form, reason codes, and errors.
- `fields`, `properties`, `codec`: packets as bytes, strictly.
- `frames`: cuts a stream of bytes into packets, the many plain ones fast.
- `filters`: topic filters, and how they say more than a topic.
- `messages`: messages as events, and what of them is passed on.
- `message_run`: messages that came one behind the other, published and sent as one.
- `memory`: what MQTT keeps with a session.
- `incoming`: what a client publishes.
- `outgoing`: what a client is sent; `aliases`: by which numbers its topics go.
- `subscribing`: SUBSCRIBE and UNSUBSCRIBE; `latest`: what new subscriptions are given first.
- `retained`, `retained_copy`, `wills`, `shared`: retained messages, and those of before a broker joined,
  wills, shared subscriptions.
- `direct`: messages that come one at a time, sent on at once and published together.
- `connection`: a connection as a state machine without I/O.
- `room`: what all connections share; batches of one turn of the loop.
- `server`: TCP and TLS.

Promised to other rooms: a client's bytes, whatever they are, end at worst its own connection; and what was
acknowledged to a publisher is safe.
"""
