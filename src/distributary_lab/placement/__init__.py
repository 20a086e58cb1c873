"""Experiments on chapter 5 of 003, operators of stream queries placed on the sites of a network.

- `setup`: networks, queries, goals and simple placements, which the others share.
- `bandwidth`: Figures 5.9, 5.13 and 5.22; `latency`: Figures 5.10 to 5.12; `load`: Figures 5.14 to 5.17 and
  5.23: placements for the least of each.
- `traffic`: Figures 5.20 and 5.21: what placing costs in messages, by a model.
- `beyond`: beyond the document: trees and queries together, springs, shedding.
- `live`: Figures 5.18 and 5.19, and beyond the document: running networks of queries that follow a goal.
"""
