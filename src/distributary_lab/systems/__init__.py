"""Experiments that no document has: all systems on one workload.

- `comparison`: what a publication costs, who carries the load, and how each system recovers from crashes.
"""
