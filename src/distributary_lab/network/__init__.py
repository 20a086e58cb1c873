"""Experiments on networks of processes, over real sockets on this machine.

- `delay`: Figure 4 of 000: a producer, a broker and a consumer.
- `wide_area`: a tree with the delays of hosts all over the world, as 003 ran it on PlanetLab: what it costs
  by the model, and what its clients measure.

What else the machine does shows in the times: run them when it is quiet.
"""
