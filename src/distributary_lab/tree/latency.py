"""Trees for the least latency, on average and at most, by the seed's climb: Figures 4.7, 4.8 and 4.20 to 4.22
and Table 4.7 of 003.

Every run starts from a random tree over a random selection of sites. What it can reach is known: shortest
paths (Dijkstra) are best for every site at once, so for the average and for the maximum alike. The star is
not quite as good, as some pairs are nearer by way of a third. Every step of every climb is measured again
from scratch, and a run fails if it is not worth what was promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from distributary.plan.trees.annealing import anneal
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.escape import improve
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.optimiser import HYBRID, climb
from distributary.plan.trees.optimum import best_paths
from distributary.plan.trees.rules import DIRECTED, LOCAL, TreeRule
from distributary.plan.trees.tree import Tree, random_tree, star
from distributary_lab.claims import Claim
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Value, Verdict, grid
from distributary_lab.rows import mean, means, number, select
from distributary_lab.tree.bottleneck import measured
from distributary_lab.tree.networks import OPTIONS, network_at

TOTAL = "minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)"
AVERAGE = "minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS)"
LARGEST = "minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)"

LOCAL_RULES, DIRECTED_RULES, HYBRID_RULES = "local", "directed", "hybrid"
OURS, UNTOUCHED, STAR = "escape", "start", "star"
ANNEALED = "annealing, {}"
RULES: dict[str, Sequence[TreeRule]] = {
    LOCAL_RULES: LOCAL,
    DIRECTED_RULES: DIRECTED,
    HYBRID_RULES: HYBRID,
}

SIZES = range(20, 201, 20)
PAPER_REWRITES = (16.6, 39.6, 61.1, 83.6, 103.8, 124.9, 151.3, 174.7, 188.7, 210.7)
"""Table 4.7, by size."""

PERIODS = 60
"""Periods shown in Figure 4.7; a climb that ends before stays where it is."""

PARTS = [1, 2, 3, 4, 5]
RUNS = 10
"""Runs in a part: 50 in all, as in section 4.6."""

DEVIATION = "Sites and latencies are the lab's wide-area network, not PlanetLab's; every run has other sites."


# What is measured


def problem_at(point: Point, random: np.random.Generator, goal: str) -> tuple[Problem, Tree, Random]:
    """Sites, a random tree over them, and a generator for whoever needs one."""
    problem = Problem(parse_goal(goal), network_at(point, random))
    source = Random(int(random.integers(2**31)))
    return problem, random_tree(problem.sites.count, source), source


def standing(tree: Tree, problem: Problem) -> TreeClimb:
    """A tree as it is, to be measured like a climb."""
    return TreeClimb(tree, tree, problem.at(tree).cost, (), 0)


def row_of(problem: Problem, method: str, found: TreeClimb, best: float) -> Row:
    """A climb in numbers, after its steps were measured again."""
    row = measured(problem, method, found, best)
    return {**row, "rewrites": found.applied, "above": 100 * (float(found.cost) / best - 1)}


def run_steps(point: Point, random: np.random.Generator) -> list[Row]:
    """Figure 4.7: the total latency in each period of a climb by local rules."""
    problem, start, _ = problem_at(point, random, TOTAL)
    found = climb(problem, start, LOCAL)
    costs = [float(problem.at(start).cost), *(float(step.after) for step in found.steps)]
    costs += [costs[-1]] * (PERIODS + 1 - len(costs))
    shape = float(problem.at(star(problem.sites.count)).cost)
    best = float(problem.at(best_paths(problem)[0]).cost)
    return [
        {"period": period, "latency": cost, "star": shape, "optimum": best, "rewrites": len(found.rewrites)}
        for period, cost in enumerate(costs[: PERIODS + 1])
    ]


def run_average(point: Point, random: np.random.Generator) -> list[Row]:
    """Figure 4.8 and Table 4.7: climbs for the average latency."""
    rows: list[Row] = []
    for _ in range(int(point["runs"])):
        problem, start, _ = problem_at(point, random, AVERAGE)
        best = float(problem.at(best_paths(problem)[0]).cost)
        ends = {
            UNTOUCHED: standing(start, problem),
            STAR: standing(star(problem.sites.count), problem),
            LOCAL_RULES: climb(problem, start, LOCAL),
            HYBRID_RULES: climb(problem, start, HYBRID),
        }
        rows.extend(
            {**row_of(problem, name, found, best), "latency": float(found.cost), "optimum": best}
            for name, found in ends.items()
        )
    return rows


def run_largest(point: Point, random: np.random.Generator) -> list[Row]:
    """Figures 4.20 and 4.21: climbs for the maximum latency, and our own search."""
    rows: list[Row] = []
    for _ in range(int(point["runs"])):
        problem, start, _ = problem_at(point, random, LARGEST)
        best = float(problem.at(best_paths(problem)[0]).cost)
        ends = {name: climb(problem, start, rules) for name, rules in RULES.items()}
        ends[OURS] = improve(problem, start)
        ends[UNTOUCHED] = standing(start, problem)
        rows.extend(row_of(problem, name, found, best) for name, found in ends.items())
    return rows


def run_annealing(point: Point, random: np.random.Generator) -> list[Row]:
    """Figure 4.22: annealing with the thesis' whole schedule, and climbs from the same trees."""
    rows: list[Row] = []
    for _ in range(int(point["runs"])):
        problem, start, source = problem_at(point, random, LARGEST)
        best = float(problem.at(best_paths(problem)[0]).cost)
        for name in (LOCAL_RULES, HYBRID_RULES):
            rows.append(row_of(problem, name, climb(problem, start, RULES[name]), best))
            walked = anneal(problem, start, source, RULES[name])
            rows.append(row_of(problem, ANNEALED.format(name), walked, best))
    return rows


# Checks


def off(rows: Rows, method: str) -> dict[int, float]:
    """By nodes: how far above the optimum a method stays, on average."""
    shares = means(select(rows, method=method), "above", by="nodes")
    return {int(nodes): share / 100 for nodes, share in shares.items()}


def span(values: Sequence[float]) -> str:
    """Shares from least to most, in per cent.

    >>> span([0.001, 0.0123]), span([0.0]), span([0.1, 1.5])
    ('0.1-1.2 %', '0.0 %', '10-150 %')
    """
    digits = 1 if max(values) < 0.1 else 0
    low, high = (f"{100 * value:.{digits}f}" for value in (min(values), max(values)))
    return f"{low} %" if low == high else f"{low}-{high} %"


def _listed(counts: Mapping[Value, float]) -> str:
    return ", ".join(f"{count:.1f}" for count in counts.values())


def check_steps(rows: Rows) -> Verdict:
    """Figure 4.7: from far above the star to the star, and a little below."""
    first, last = (select(rows, period=period) for period in (0, PERIODS))
    start, end, shape, best = (
        mean(found, column) / 1000
        for found, column in ((first, "latency"), (last, "latency"), (last, "star"), (last, "optimum"))
    )
    return Verdict.of(
        end <= 1.01 * shape < start and end <= 1.05 * best,
        ours=f"from {start:.1f} s to {end:.1f} s; the star has {shape:.1f} s, shortest paths {best:.1f} s",
        ratio=end / best,
        reason=f"Local rules alone, {mean(last, 'rewrites'):.1f} rewrites on average. Latencies that break "
        "the triangle inequality let the climb pass the star; judged: no worse than the star, within 5 % of "
        "the shortest paths.",
    )


def check_average(rows: Rows) -> Verdict:
    """Figure 4.8: within one in a hundred of the shortest paths."""
    ends = {name: off(rows, name) for name in (HYBRID_RULES, LOCAL_RULES, STAR, UNTOUCHED)}
    hybrid, local, shape, first = (span(list(shares.values())) for shares in ends.values())
    worst = max(ends[HYBRID_RULES].values())
    sizes = sorted(ends[HYBRID_RULES])
    return Verdict.of(
        worst <= 0.01,
        ours=f"hybrid {hybrid} above the optimum, {sizes[0]} to {sizes[-1]} nodes",
        ratio=1 + worst,
        reason=f"Judged: within 1 % at every size. Local rules alone end {local} above, the star is {shape} "
        f"and the first tree {first} above.",
    )


def check_rewrites(rows: Rows) -> Verdict:
    """Table 4.7: about as many rewrites as sites."""
    paper = dict(zip(SIZES, PAPER_REWRITES, strict=True))
    counts = means(select(rows, method=HYBRID_RULES), "rewrites", by="nodes")
    ratios = {int(nodes): count / paper[int(nodes)] for nodes, count in counts.items() if int(nodes) in paper}
    local = means(select(rows, method=LOCAL_RULES), "rewrites", by="nodes")
    return Verdict.of(
        bool(ratios) and all(2 / 3 <= ratio <= 4 / 3 for ratio in ratios.values()),
        ours=_listed(counts),
        ratio=float(np.mean(list(ratios.values()))) if ratios else None,
        reason=f"By hybrid rules at {', '.join(str(nodes) for nodes in counts)} nodes; judged: within a "
        f"third of the thesis' number at every size. By local rules {_listed(local)}.",
    )


def check_largest(rows: Rows) -> Verdict:
    """Figure 4.20: both kinds of rules together are best."""
    ends = {name: off(rows, name) for name in RULES}
    small = [share for nodes, share in ends[HYBRID_RULES].items() if nodes < 100]
    large = [share for nodes, share in ends[HYBRID_RULES].items() if nodes >= 100]
    average = {name: float(np.mean(list(shares.values()))) for name, shares in ends.items()}
    within = f"{span(large)} at 100 to 200" if large else "not run beyond"
    return Verdict.of(
        max(small) <= 0.05
        and max(large, default=0.0) <= 0.2
        and average[HYBRID_RULES] <= min(average.values()) + 0.01,
        ours=f"hybrid {span(small)} above the optimum below 100 nodes, {within}",
        ratio=1 + max(small + large),
        reason="Judged: hybrid within 5 % below 100 nodes, within 20 % from there, and best of the three up "
        "to 1 %. "
        + ", ".join(f"{name} {span(list(shares.values()))}" for name, shares in ends.items())
        + ". In the thesis directed rules alone do worst; weighed against every site that is better off, as "
        "Table 4.3 has it, they do better than local rules.",
    )


def check_largest_rewrites(rows: Rows) -> Verdict:
    """Figure 4.21: the rules together go on where either stops, with little more."""
    counts = {name: means(select(rows, method=name), "rewrites", by="nodes") for name in RULES}
    per_site = max(count / int(nodes) for nodes, count in counts[HYBRID_RULES].items())
    return Verdict.of(
        per_site <= 1.2,
        ours="; ".join(f"{name} {_listed(values)}" for name, values in counts.items()),
        reason=f"At {', '.join(str(nodes) for nodes in counts[HYBRID_RULES])} nodes; judged: hybrid needs at "
        f"most about as many rewrites as there are sites ({per_site:.2f} a site at most).",
    )


def check_annealing(rows: Rows) -> Verdict:
    """Figure 4.22: who is closer to the optimum."""
    names = [name for rule in (LOCAL_RULES, HYBRID_RULES) for name in (rule, ANNEALED.format(rule))]
    ends = {name: off(rows, name) for name in names}
    average = {name: float(np.mean(list(shares.values()))) for name, shares in ends.items()}
    closer = all(average[name] <= average[ANNEALED.format(name)] for name in (LOCAL_RULES, HYBRID_RULES))
    times = [
        mean(rows, "rewrites", method=ANNEALED.format(name)) / mean(rows, "rewrites", method=name)
        for name in (LOCAL_RULES, HYBRID_RULES)
    ]
    return Verdict.of(
        closer,
        ours=", ".join(f"{name} {span(list(shares.values()))}" for name, shares in ends.items()) + " above",
        reason="Judged: the climb closer on average, by local and by hybrid rules. Annealing with the whole "
        "schedule tries 64 rewrites a site at some 250 temperatures and gets to the optimum, or nearly; it "
        f"applies {times[0]:,.0f} (local) and {times[1]:,.0f} (hybrid) times as many rewrites for it. The "
        "thesis finds it further off the larger the network, which a shorter schedule would explain.",
    )


def check_escape(rows: Rows) -> Verdict:
    """Ours: the maximum latency within 5 % at any size, with fewer rewrites than the climb."""
    ours, climbs = off(rows, OURS), off(rows, HYBRID_RULES)
    found = select(rows, method=OURS)
    worst = max(number(row, "share") for row in found) - 1
    climbed = max(number(row, "share") for row in select(rows, method=HYBRID_RULES)) - 1
    made = {name: mean(rows, "connections", method=name) for name in (OURS, HYBRID_RULES)}
    return Verdict.of(
        worst <= 0.05 and made[OURS] <= made[HYBRID_RULES],
        ours=f"{100 * worst:.1f} % above the optimum in the worst of {len(found)} runs",
        ratio=1 + worst,
        reason=f"The climb is {100 * climbed:.0f} % above in its worst run; by size on average "
        f"{span(list(climbs.values()))} against {span(list(ours.values()))}. New connections: "
        f"{made[OURS]:.1f} against {made[HYBRID_RULES]:.1f}. Ours needs to know every link at one place.",
    )


# The experiments

ABOVE = "above the optimum, %"

ESCAPE = Claim(
    "beyond-tree-maximum-latency",
    "the least maximum latency, within 5 % in every run at 20 to 200 nodes, with fewer new connections than "
    "by the climb",
    "the climb: within 20 % at 100-200 (003 Figure 4.20)",
)

EXPERIMENTS = (
    Experiment(
        name="tree-total-latency",
        title="The total latency of 40 sites, period by period",
        grid=grid(nodes=[40], run=list(range(1, 51))),
        quick=grid(nodes=[40], run=[1, 2, 3]),
        run=run_steps,
        options=OPTIONS,
        answers={
            "003-fig4.7": Answer(
                check_steps,
                (
                    Plot(
                        "Total latency in each period",
                        x="period",
                        y=("latency", "star", "optimum"),
                        x_label="optimisation period",
                        y_label="sum of the sites' latencies, ms",
                    ),
                ),
            ),
        },
        deviation=DEVIATION + " 50 runs, where the figure shows one.",
    ),
    Experiment(
        name="tree-average-latency",
        title="The average latency by the climb, and how many rewrites it takes",
        grid=grid(nodes=list(SIZES), part=PARTS, runs=[RUNS]),
        quick=grid(nodes=[20, 40, 60], part=[1], runs=[3]),
        run=run_average,
        options=OPTIONS,
        answers={
            "003-fig4.8": Answer(
                check_average,
                (
                    Plot(
                        "Average latency, climb by hybrid rules",
                        x="nodes",
                        y=("latency", "optimum"),
                        where={"method": HYBRID_RULES},
                        y_label="average latency of a site, ms",
                    ),
                    Plot(
                        "Against the optimum",
                        x="nodes",
                        y="above",
                        series="method",
                        where={"method": (HYBRID_RULES, LOCAL_RULES, STAR)},
                        y_label=ABOVE,
                    ),
                ),
            ),
            "003-tab4.7": Answer(
                check_rewrites,
                (
                    Plot(
                        "Rewrites",
                        x="nodes",
                        y="rewrites",
                        series="method",
                        where={"method": (HYBRID_RULES, LOCAL_RULES)},
                        y_label="rewrites",
                    ),
                ),
            ),
        },
        deviation=DEVIATION,
    ),
    Experiment(
        name="tree-maximum-latency",
        title="The maximum latency by rules, and by our own search",
        grid=grid(nodes=list(SIZES), part=PARTS, runs=[RUNS]),
        quick=grid(nodes=[20, 60, 100], part=[1], runs=[3]),
        run=run_largest,
        options=OPTIONS,
        answers={
            "003-fig4.20": Answer(
                check_largest,
                (
                    Plot(
                        "By rules",
                        x="nodes",
                        y="above",
                        series="method",
                        where={"method": (*RULES, OURS)},
                        y_label=ABOVE,
                    ),
                    Plot(
                        "With directed rules, and by our own search",
                        x="nodes",
                        y="above",
                        series="method",
                        where={"method": (DIRECTED_RULES, HYBRID_RULES, OURS)},
                        y_label=ABOVE,
                    ),
                ),
            ),
            "003-fig4.21": Answer(
                check_largest_rewrites,
                (
                    Plot(
                        "Rewrites",
                        x="nodes",
                        y="rewrites",
                        series="method",
                        where={"method": tuple(RULES)},
                        y_label="rewrites",
                    ),
                ),
            ),
            "beyond-tree-maximum-latency": Answer(
                check_escape,
                (
                    Plot(
                        "New connections",
                        x="nodes",
                        y="connections",
                        series="method",
                        where={"method": (*RULES, OURS)},
                        y_label="connections",
                    ),
                ),
                claim=ESCAPE,
            ),
        },
        deviation=DEVIATION,
    ),
    Experiment(
        name="tree-maximum-latency-annealing",
        title="The maximum latency by the climb and by simulated annealing",
        grid=(
            *grid(nodes=[20, 40, 60, 100], part=PARTS, runs=[RUNS]),
            *grid(nodes=[200], part=list(range(1, 11)), runs=[1]),
        ),
        quick=grid(nodes=[10, 20], part=[1], runs=[2]),
        run=run_annealing,
        options=OPTIONS,
        answers={
            "003-fig4.22": Answer(
                check_annealing,
                (
                    Plot("By search and rules", x="nodes", y="above", series="method", y_label=ABOVE),
                    Plot(
                        "Rewrites applied",
                        x="nodes",
                        y="rewrites",
                        series="method",
                        log_y=True,
                        y_label="rewrites",
                    ),
                ),
            ),
        },
        deviation=DEVIATION + " At 200 nodes 10 runs.",
    ),
)
