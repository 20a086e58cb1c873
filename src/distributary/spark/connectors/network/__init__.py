"""The format `distributary`: events of a network as a stream, and rows as events of a network.

Modules, in reading order:

- `broker`: how a broker is reached from the options of the format;
- `event`: an event in the log, and as a row;
- `intake`: takes the events of a subscription into the log, each once;
- `sink`: rows as events;
- `source`: the format itself, and its reader.
"""
