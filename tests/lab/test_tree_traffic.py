"""What the lab counts of a live tree, and what it concludes from it."""

from __future__ import annotations

import numpy as np

from distributary_lab.experiment import Row
from distributary_lab.tree.traffic import (
    BOTTLENECK,
    check_price,
    check_saved,
    check_steps,
    run_approximation,
    run_traffic,
)


def test_a_climb_is_run_to_its_end_and_its_traffic_told_by_purpose() -> None:
    (row,) = run_traffic({"nodes": 6, "feeds": 10, "metric": BOTTLENECK}, np.random.default_rng(2))
    assert 0 < row["upkeep"] < 1000
    assert row["optimisation"] > 0
    assert row["periods"] >= row["rewrites"] + 2


def test_exact_and_approximate_statistics_start_from_the_same_tree() -> None:
    point = {"nodes": 6, "broadcast_periods": "0 1", "most_periods": 3}
    exact, approximate = run_approximation(point, np.random.default_rng(2))
    assert exact["start"] == approximate["start"] >= exact["cost"]
    assert approximate["broadcast_bytes"] < exact["broadcast_bytes"]


def test_the_price_of_approximation_is_taken_within_one_network() -> None:
    rows: list[Row] = []
    for run, scale in enumerate((1.0, 100.0)):
        for period, share in ((0.0, 1.0), (1.0, 1.05)):
            rows.append(
                {
                    "nodes": 10,
                    "run": run,
                    "broadcast_period": period,
                    "bytes": 100.0 if period == 0 else 10.0,
                    "broadcast_bytes": 90.0 if period == 0 else 3.0,
                    "cost": scale * share,
                    "rewrites_to_best": 15 if period == 0 else 20,
                }
            )
    assert check_saved(rows).ours == "90% at p = 1 (97% of the broadcasts)"
    assert check_price(rows).ours == "+5.0% at p = 1"
    assert check_steps(rows).ours == "20 against 15"
