"""Experiments on networks of processes, over real sockets on this machine.

- `delay`: Figure 4 of 000: a producer, a broker and a consumer.
- `wide_area`: a tree with the delays of hosts all over the world, as 003 ran it on PlanetLab: what it costs
  by the model, and what its clients measure.
- `redundant_data`: a tree that moves until no broker is sent what its clients do not want (Figure 4.9).
- `hope_upkeep`: what keeping HOPE up costs in bytes on the wire, beside the simulator's.
- `placed_queries`: stream queries whose operators move by what brokers measure, as in Figures 5.9 and 5.10.
- `improving`: how long to wait for a network that improves itself.

What else the machine does shows in the times: run them when it is quiet.
"""
