"""The units in which a tree's latencies, bandwidths and rates are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TreeUnits:
    """What numbers are in, as the file says; the planner computes without it.

    >>> TreeUnits(rate="KB/s").by_metric["incoming rate"]
    'KB/s'
    """

    latency: str = "ms"
    """Of processing times, too."""
    bandwidth: str = "Mbit/s"
    rate: str = "events/s"
    own: Mapping[str, str] = field(default_factory=dict)
    """Of the user's own metrics, by name."""

    @property
    def by_metric(self) -> dict[str, str]:
        """The unit of every metric that a goal may name and that is not only a number."""
        return {
            "link latency": self.latency,
            "cpu": self.latency,
            "link bandwidth": self.bandwidth,
            "incoming rate": self.rate,
            "superfluous data": self.rate,
            **self.own,
        }
