"""Stream queries over sites: which site runs which operator, what that costs, and what to move.

    placement = at_clients(workload, network)              # every operator at its client's site
    found = climb(goal, placement, MIGRATIONS, HYBRID)     # a goal of `goals.parse_query_goal`
    found.placement.hosts, found.cost, found.rewrites

In reading order:

- `graph`: queries as numbers. `spreading`: the trees by which operators' streams spread. `placement`: sites,
  their trees, and a host for every operator.
- `goals`: what can be measured, and goals of it. `cost`: plain measurement, which everything faster is
  checked against.
- `state`: a placement as arrays that are kept up to date; `moves`: what moving operators would change in
  them.
- `evaluation`, `forms`, `system_forms`: a goal's values, now and after a move. `benefit`
  (`PlacementEstimate`): what a move or a split is worth, and whether the constraints allow it.
- `rules`: which changes are considered, and how far they reach. `statistics`: what sites tell each other, and
  what that costs. `optimiser`: the seed's hill climbing.
- `baselines`, `relaxation`: placements to compare with. `beginnings`: climbs from several placements.
- `joint`: trees and placements improved together. `shedding`: which queries to thin out when sites have too
  much to do.
- `generator`: the seed's workload. `blocks`, `catalogue`: a catalogue's queries as a workload. `plan_file`:
  reading a plan from a file. `drawing`: text and pictures, for which `layout` says where everything goes.
"""
