"""The networks of the tree experiments: what they promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distributary.errors import DistributaryError
from distributary_lab.tree.networks import MOST_SITES, built_in, network_at


def test_the_built_in_network_is_symmetric_and_breaks_the_triangle_inequality() -> None:
    latency, bandwidth = built_in()
    apart = ~np.eye(MOST_SITES, dtype=bool)
    for matrix in (latency, bandwidth):
        assert (matrix == matrix.T).all()
        assert (matrix[apart] > 0).all()
    shorter = [
        (latency[:, [third]] + latency[[third], :] < latency)[apart].mean() for third in range(MOST_SITES)
    ]
    assert 0.05 < np.mean(shorter) < 0.2
    assert 100 < np.median(latency[apart]) < 200
    assert np.quantile(bandwidth[apart], 0.9) > 7 * np.quantile(bandwidth[apart], 0.1)


def test_a_selection_keeps_the_values_of_its_pairs_and_depends_on_the_seed_alone() -> None:
    one, again = (network_at({"nodes": 30}, np.random.default_rng(5)) for _ in range(2))
    other = network_at({"nodes": 30}, np.random.default_rng(6))
    assert one == again != other
    latency, bandwidth = built_in()
    at = int(np.flatnonzero(latency == one.latency[3][7])[0])
    assert bandwidth.flat[at] == one.bandwidth[3][7]


def test_more_sites_than_there_are_cannot_be_selected() -> None:
    with pytest.raises(DistributaryError, match="201 sites of the built-in network, which has 200"):
        network_at({"nodes": 201}, np.random.default_rng(1))


def test_files_of_either_form_make_a_network(tmp_path: Path) -> None:
    table, links = tmp_path / "latency.csv", tmp_path / "bandwidth.csv"
    table.write_text(",a,b,c\na,0,1,2\nb,10,0,3\nc,20,30,0\n")
    links.write_text("from,to,value\na,b,7\na,c,8\nc,b,9\n")
    files = {"latency_file": str(table), "bandwidth_file": str(links)}
    sites = network_at({**files, "nodes": 3}, np.random.default_rng(1))
    pairs = {(sites.latency[a][b], sites.bandwidth[a][b]) for a in range(3) for b in range(3) if a != b}
    assert pairs == {(1, 7), (10, 7), (2, 8), (20, 8), (3, 9), (30, 9)}
    assert network_at({"nodes": 2, "latency_file": str(links)}, np.random.default_rng(1)).count == 2


def test_a_missing_pair_is_named_with_its_file(tmp_path: Path) -> None:
    links = tmp_path / "latency.csv"
    links.write_text("from,to,value\na,b,7\na,c,8\n")
    with pytest.raises(DistributaryError, match=r"latency.csv: the value from 'b' to 'c' is missing"):
        network_at({"nodes": 2, "latency_file": str(links)}, np.random.default_rng(1))


def test_files_that_are_set_take_the_place_of_the_built_in_network(tmp_path: Path) -> None:
    links = tmp_path / "latency.csv"
    links.write_text("from,to,value\na,b,7\n")
    random = np.random.default_rng(1)
    assert network_at({"nodes": 2, "latency_file": str(links)}, random).latency == [[0, 7], [7, 0]]
    assert network_at({"nodes": 2}, random).latency[0][1] in built_in()[0]
    with pytest.raises(DistributaryError, match="bandwidth_file needs latency_file"):
        network_at({"nodes": 2, "bandwidth_file": str(links)}, random)
