"""Experiments on chapters 4 and 5 of 001, HOPE: XML dissemination on a hypercube over a ring.

- `model`: a full cube as arrays, and what all events of a collection do on it.
- `multicast`: Figures 4.7 to 4.11: trees on the network below, and the traffic of KBPP.
- `delivery`: Figures 4.13 to 4.15, 4.17, 4.19, 4.20, 4.23 to 4.25, 5.2 and 5.4: what events cost under KBSP.
- `nodes`: Figures 4.12 and 4.16: what comes to running nodes.
- `upkeep`: Figures 4.18, 4.21, 4.22 and 5.3: what keeping ring, links and replicas up costs.
- `failures`: Figure 5.5: what is lost when nodes fail at once.
- `balance`: beyond the document: address length and several turned cubes ("facets").
"""
