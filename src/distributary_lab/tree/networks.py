"""The wide-area networks over which the lab grows dissemination trees: a built-in one, or one from files.

The built-in network has 200 sites, always the same ones, as the thesis replayed one set of measurements for
all its runs (section 4.6); a run takes a random selection of them, the first of which is the root.

- Latency is the round trip in milliseconds of `sim.latency.WideAreaLatency`: several humps from the
  continents, a long tail, and detours. As between PlanetLab's hosts, the way over a third site is shorter
  for about half of the pairs, and for one triple in ten; so the star is not quite the tree of least latency.
- Bandwidth, in Mbit/s, is what is free on a path: of the slower of the two sites' lines (median 100) a share
  of the pair's own. Half of the pairs have less than 33, one in ten less than 9: between hosts of a testbed
  free bandwidth hangs on the pair more than on the hosts.

Both are symmetric. Cost: the built-in network takes a second to make, once a process.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DistributaryError
from distributary.plan.trees.matrices import read_matrices
from distributary.plan.trees.tree import Sites
from distributary.sim.latency import WideAreaLatency
from distributary_lab.experiment import Experiment, OpenParameter, Point, Runs

MOST_SITES = 200

SEED = 3
"""Of the built-in network: there is but one."""

LINE_MEDIAN, LINE_SPREAD = 100.0, 0.5
"""Of the sites' lines: median in Mbit/s, deviation of the logarithm."""

BUSY_SPREAD = 1.2
"""Of what others leave free between two sites: deviation of the logarithm, which is never above 0."""

Floats = NDArray[np.float64]


OPTIONS = {
    "latency_file": "a CSV file of latencies in place of the built-in network",
    "bandwidth_file": "a CSV file of bandwidths between the same sites",
}
"""What the experiments on trees let be set (`Experiment.options`)."""


SITES = OpenParameter(
    "the sites' network",
    "the lab's wide-area network of 200 sites",
    "the thesis replayed measurements of PlanetLab that are not public",
    after=False,
    effect="--set latency_file and bandwidth_file run it on another",
)

site_experiment = partial(Experiment, options=OPTIONS, runs=Runs.MODEL, open_parameters=(SITES,))
"""An experiment over sites that may be given in files; trees are the planner's, not running nodes'."""


def network_at(point: Point, random: np.random.Generator) -> Sites:
    """As many sites as the point has nodes: of the built-in network, or of the files that were set.

    Files are CSV, as `distributary plan` reads them (`plan.trees.matrices`).

    >>> sites = network_at({"nodes": 5}, np.random.default_rng(1))
    >>> sites.count, sites.latency[1][2] == sites.latency[2][1] > 0, sites.bandwidth[1][2] > 0
    (5, True, True)
    """
    nodes, files = int(point["nodes"]), [str(point[name]) for name in OPTIONS if point.get(name)]
    if files and not point.get("latency_file"):
        raise DistributaryError("--set bandwidth_file needs latency_file too: it says which sites there are")
    links = map(np.array, read_matrices(list(map(Path, files)))) if files else built_in()
    latency, *bandwidth = links
    if not 2 <= nodes <= len(latency):
        where = files[0] if files else "the built-in network"
        raise DistributaryError(f"{nodes} sites of {where}, which has {len(latency)}; at least 2 are needed")
    chosen = random.choice(len(latency), nodes, replace=False)
    pairs = np.ix_(chosen, chosen)
    return Sites(latency[pairs].tolist(), bandwidth[0][pairs].tolist() if bandwidth else ())


@cache
def built_in() -> tuple[Floats, Floats]:
    """Latency and bandwidth between all sites of the built-in network."""
    model = WideAreaLatency(seed=SEED)
    latency = np.zeros((MOST_SITES, MOST_SITES))
    for one in range(MOST_SITES):
        for other in range(one):
            latency[one, other] = latency[other, one] = 1000 * model.round_trip(one, other)
    random = np.random.default_rng(SEED)
    lines = LINE_MEDIAN * np.exp(random.normal(0.0, LINE_SPREAD, MOST_SITES))
    busy = np.triu(np.abs(random.normal(0.0, BUSY_SPREAD, latency.shape)), 1)
    bandwidth = np.minimum(lines[:, None], lines[None, :]) * np.exp(-busy - busy.T)
    np.fill_diagonal(bandwidth, 0.0)
    return latency, bandwidth
