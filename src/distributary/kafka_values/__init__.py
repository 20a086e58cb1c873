"""Values of Kafka's messages that only a schema makes readable: Avro and Protobuf, as registries frame them.

In reading order:

- `wire`: the bytes before a value, which name its schema; JSON is read without them.
- `schemas`: schemas by their id, from a registry or from files.
- `avro`, `protobuf`: a value as a record, by the schema it was written with.
- `decoder`: all of it, for a source: bytes in, a record or its JSON out.
- `headers`: what stands beside a value, as texts.

Promised to other rooms: a value that cannot be read is an `InputError`, which says why, whatever its bytes;
a registry that does not answer is another error, for it says nothing about the value.
"""
