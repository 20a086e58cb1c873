"""The lab: experiments that check what the seed documents measured, and the report about them.

`claims` is the catalogue, `experiment` says what an experiment is, `registry` lists them, `running` runs them
on one of the `engines`, `results` keeps what came out, `report` shows it. docs/lab.md tells how to add one.
"""
