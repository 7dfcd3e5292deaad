"""From jobs to pods: reading any kind of workload, expanding some kinds, and writing the pods' state into their status.
Pure.

`registry.py` is the table of kinds, a row (`kind.py`) for each, `kinds` has their code; `read.py` reads any of them,
`reconcile.py` decides what a controller (`controller.py`) does next, `lifecycle.py` is the life cycle of a gang job
and `server.py` that of one pod that lives until it is suspended. What kinds have in common stands in `training.py`,
`launched.py` and `sshgang.py`. Begin with `registry.py`.
"""
