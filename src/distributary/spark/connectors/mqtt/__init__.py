"""The format `mqtt`: messages of an MQTT broker as a stream, and rows as messages.

Modules, in reading order:

- `client`: how a client of a broker is made, for reading and for writing;
- `message`: a message in the log, and as a row;
- `intake`: takes messages from a broker into the log, and acknowledges them when they are safe;
- `sink`: rows as messages;
- `source`: the format itself, and its reader.
"""
