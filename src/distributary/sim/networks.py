"""Latency models by name, as commands take them."""

from __future__ import annotations

from distributary.errors import UsageError
from distributary.sim.latency import ConstantLatency, Latency, MatrixLatency, UniformLatency, WideAreaLatency
from distributary.sim.underlay import Underlay

NETWORKS = {
    "constant": "50 ms for every message, or constant:SECONDS",
    "uniform": "10 to 100 ms, or uniform:LEAST-MOST in seconds",
    "wide-area": "shaped like measured wide-area round-trip times",
    "matrix:FILE": "a CSV of round-trip times in milliseconds between named places",
    "transit-stub": "a random internetwork of routers, with link stress and stretch",
    "links:FILE": "the same for links from a file: two routers and milliseconds a line",
}
"""What `latency_of` understands."""


def latency_of(text: str, seed: int) -> Latency:
    """The latency model that a text names.

    >>> latency_of("constant:0.2", seed=1)
    ConstantLatency(seconds=0.2)
    """
    name, _, rest = text.partition(":")
    match name:
        case "constant":
            return ConstantLatency(_seconds(rest, text) if rest else 0.05)
        case "uniform":
            least, _, most = rest.partition("-") if rest else ("0.01", "-", "0.1")
            return UniformLatency(_seconds(least, text), _seconds(most, text), seed=seed)
        case "wide-area" if not rest:
            return WideAreaLatency(seed=seed)
        case "matrix" if rest:
            return MatrixLatency.read(rest, seed=seed)
        case "transit-stub" if not rest:
            return Underlay.transit_stub(seed=seed)
        case "links" if rest:
            return Underlay.read(rest, seed=seed)
    raise UsageError(f"no latency {text!r}; there are {', '.join(NETWORKS)}")


def _seconds(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"latency {whole!r}: {text!r} is no number of seconds") from None
