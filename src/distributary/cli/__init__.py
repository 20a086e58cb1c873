"""The command `distributary`: one module a command, each thin, and loading what it uses when it is used.

- `main`: finds and runs the command asked for; exit codes
- `terminal`: what commands share: help, options, progress, what is told; `arguments`: types of arguments
- `engine`: whether Spark and Java are here
- `match`, `check`, `explain`, `generate`, `subscriptions`: files and stores, in this process; with
  `event_batches`, the events of a file as they are matched
- `run`, `replay`, `demo/`: on Spark; `outputs`: what a pipeline wrote, removed
- `plan`, `plan_trees`, `plan_queries`: trees and placements for sites; `plan_output`: how both end
- `sim`, `sim_queries`, `sim_promise`, `trials`: the simulator; `unused`: options that change nothing there
- `network`, `node`, `publish`, `subscribe`, `query`: brokers on real sockets and their clients; with
  `brokers`, to whom clients connect, `link_speeds`, how slow links are made for trials, `network_status`,
  how a network is shown, and `subscribed_file`, what a subscriber writes and where it was
- `serve`: a broker for MQTT and the web in one process; `access`: hashes and checks for access files

`distributary lab` is in the package `distributary_lab`.
"""
