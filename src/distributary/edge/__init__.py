"""Where clients connect that are no part of the network: devices by MQTT, programs and people by the web.

Modules, in reading order:

- `broker`: what the edge asks of a broker, and a live broker that gives it.
- `mailbox`: what a subscriber has been sent and has not acknowledged; `mailbox_entries`: what stands in it.
- `stored`: what a session keeps on the disk.
- `access/`: who is let in, and what they may see and do.
- `session`: a subscriber's place at a broker: their subscriptions and their mailbox; `session_room`: what it
  asks of others; `session_disk`: how it is written and read; `sessions`: all of them.
- `web/`: HTTP, WebSocket, server-sent events and webhooks.
- `kafka/`: topics of Kafka's as events, and deliveries as records of Kafka's.
- `web_feeds`: polls web feeds over HTTP, and publishes what is new.
- `console/`: pages on which people look at a broker and try things out.
- `serve`: all of it in one process.
- `payloads`: bytes as events, and events as the bytes that they came as.
- `mqtt/`: MQTT 3.1.1 and 5.

Promised to other rooms: nobody sees or sends anything without being allowed to, and a subscriber is told
what their mailbox does not keep.
"""
