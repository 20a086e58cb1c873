"""The goals of query networks that commands and experiments know by a name (003, section 5.5)."""

from __future__ import annotations

BANDWIDTH = """
    out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate
    minimise aggregate(SUM, out, BROKERS)
"""
LATENCY = """
    operator latency = aggregate(SUM, latency, UPSTREAM OPERATORS)
    minimise aggregate(AVERAGE, aggregate(SUM, operator latency, QUERY OPERATORS), QUERIES)
"""
RESPONSE = """
    operator latency = aggregate(SUM, latency + node delay, UPSTREAM OPERATORS) + processing latency
    minimise aggregate(AVERAGE, aggregate(SUM, operator latency, QUERY OPERATORS), QUERIES)
"""
LOAD = "minimise aggregate(MAX, node load, BROKERS)"

NAMED_GOALS = {"bandwidth": BANDWIDTH, "latency": LATENCY, "load": LOAD}
"""What `--goal` takes in place of a goal's text."""
