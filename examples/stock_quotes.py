"""Stock quotes to those who want to hear of a price when it has moved: three systems, side by side.

Run it with `python examples/stock_quotes.py`, or with a CSV of your own, whose columns are time, symbol and
price: `python examples/stock_quotes.py quotes.csv`.
"""

import sys

from distributary.workloads import quote_files, stock_days
from distributary_lab.state_aware.stock_application import COMPARED, run_application


def main() -> None:
    if len(sys.argv) > 1:
        found = quote_files.read(sys.argv[1])
        for row in found.rejected:
            print("set aside:", row)
        trace = quote_files.trace(found.quotes, seed=1, subscribers=20, every_minutes=2)
    else:
        trace = stock_days.trace(seed=1, sources=10, subscribers=20, minutes=20, every_minutes=4)
    print(f"{len(trace.publications)} quotes, {len(trace.requests)} subscriptions, a ring of 100 nodes")
    got = {}
    for system in COMPARED:
        run = run_application(trace, system, nodes=100, seed=1)
        got[system] = run.deliveries()
        cost = run.costs["publish"]
        print(f"{system}: {len(got[system])} deliveries, {cost.messages:.1f} messages a quote")
    print("thresholds deliver what SF delivers:", got["thresholds"] == got["sf"])


if __name__ == "__main__":
    main()
