"""The web's side of a broker: publish, subscribe and receive by HTTP and WebSocket.

Modules, in reading order:

- `faults`: what a request is refused with.
- `records`: what is said in JSON.
- `bodies`: the events of a request, well-formed and not.
- `tickets`: what a browser's script shows in place of a header.
- `service`: what all requests share.
- `admission`: who a request comes from, and whether a page may send it.
- `publishing`: publish events, and wait until they are safe.
- `managing`: sessions and subscriptions.
- `pulling`: what a session has, for a connection that sends it.
- `server_sent`: as server-sent events.
- `sockets`: by WebSocket.
- `outgoing`: requests that the broker sends.
- `webhooks`: what a session has, sent to an address.
- `explaining`: why an event would match.
- `replaying`: subscriptions that begin in the past.
- `mqtt_sockets`: MQTT over WebSocket.
- `openapi`: what can be asked for, described.
- `application`: which request does what.
- `server`: listens.

Promised to other rooms: whatever bytes come, the answer is a sentence; and a slow client costs only itself.
"""
