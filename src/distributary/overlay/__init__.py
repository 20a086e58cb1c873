"""Protocols without I/O: nodes as state machines, rings, multicast, replication."""
