"""Numbers as Prometheus reads them: counters, which only grow, and gauges.

>>> print(metrics_text({"events": 3}, {"lag_seconds": 0.5}, {"pipeline": "quotes"}), end="")
# TYPE distributary_events_total counter
distributary_events_total{pipeline="quotes"} 3
# TYPE distributary_lag_seconds gauge
distributary_lag_seconds{pipeline="quotes"} 0.5
"""

from __future__ import annotations

from collections.abc import Mapping

CONTENT_TYPE = "text/plain; version=0.0.4"
"""What the text is called over HTTP."""


def metrics_text(
    counters: Mapping[str, float], gauges: Mapping[str, float], labels: Mapping[str, str] | None = None
) -> str:
    """The text of these numbers; blanks in names become underscores. All of them have the labels."""
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in (labels or {}).items())
    braces = f"{{{told}}}" if told else ""
    lines = []
    for kind, ending, numbers in (("counter", "_total", counters), ("gauge", "", gauges)):
        for name, value in numbers.items():
            metric = f"distributary_{name.replace(' ', '_')}{ending}"
            lines += [f"# TYPE {metric} {kind}", f"{metric}{braces} {value}"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
