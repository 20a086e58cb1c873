"""Kafka beside a broker: records of Kafka's topics become events, and deliveries become records.

Modules, in reading order:

- `settings`: what the file of `--kafka` may say.
- `records`: records as events, and events as records.
- `intake`: reads topics, publishes, and commits what is safe.
- `outlet`: writes what a session was delivered, each delivery once.
- `quarantine`: what could not be read or written, kept with its place.
- `confluent`: reads topics by the client library of Confluent; `kafka_transactions` writes them.
- `bridge`: all of a file, at one broker.

Promised to other rooms: a record that was committed is safe in the network, and one that is read again is
known by its identity; a consumer that reads committed records sees each delivery once.
"""
