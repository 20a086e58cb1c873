"""Trees over sites: what a tree costs, what a change is worth, and which tree to take.

    problem = Problem(goal, sites)               # a goal of `goals.parse_goal`, what is known of the sites
    found = improve(problem, star(sites.count))  # the default search
    found.tree.parents, found.cost, found.rewrites

In reading order:

- `tree`: a tree, and what is known of its sites. `metrics`: what is measured of a site; `goals` reads goals
  of these.
- `cost`: what a tree costs by plain measurement, which everything faster is checked against.
- `rules`: the rewrites that are considered, as data.
- `benefit`: what a rewrite is worth (`Problem`, `TreeEstimate`), by `path_cost` for costs that follow from
  the path to the root, by `incremental` for all others, by `moves` for all parents of a site at once, and by
  `bulk` in machine code for all pairs of sites (`bulk_walk` is annealing's walk in it).
- `climb`: what every search hands back. `optimiser` is the seed's hill climbing, `annealing` simulated
  annealing, `optimum` the best tree where it can be known, `escape` the default search, which goes on where
  climbing stops.
- `feasibility` and `mending`: constraints that no tree can keep, and making a tree keep those that can be
  kept.
- `adaptation`: keeping a tree good while conditions drift.
- `starts`: trees to begin from. `reasons`: why each site of a plan gets another parent. `drawing`: text and
  pictures, for which `layout` says where everything goes.
- `sites_file`, `matrices`, `rates`: reading sites, links, and what a pipeline measured. `units`: what numbers
  are in.

`bulk` loads Numba and is imported when it is used; this package imports nothing by itself.
"""
