"""The lab: experiments that check what the seed documents measured, and the report about them.

An experiment is a grid of points, a function from a point to rows of numbers, and for each claim that the
rows answer a check and plots. Reading order:

- `claims`: the catalogue of claims (claims.toml), one for each figure or table with results, and our own.
- `experiment`: what an experiment, a check's verdict and a plot are.
- `words`: what the documents' words mean in numbers: the only thresholds there are.
- `evidence`: what a check is shown of the rows: what was measured, and where.
- `rows`: what checks do with rows: pick, average, group, write numbers out.
- `sparse_ring`: rings of many nodes, made when they are needed, for experiments on several systems.
- `registry`: which experiments there are; `tasks`, `engines`, `running`: their points, and where they run;
  `kept`: points that have finished, for a run that goes on where it was stopped.
- `results`: what a run leaves behind; `verdicts`: each claim with what the results say of it.
- `plots`, `report`: the page about all of it; `publishing`: pages of Markdown.
- `command`: the command `distributary lab`.

The experiments are in packages by what they are about: `topics` (000), `xml` and `hope` (001), `state_aware`
(002), `tree` and `placement` (003), `attributes` (004 and a figure of 002), `systems` (beyond the documents),
`network` (real sockets).
Nothing outside imports the lab but its entry point. docs/lab.md tells how to add an experiment.
"""
