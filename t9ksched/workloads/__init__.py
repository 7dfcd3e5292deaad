"""How a job becomes pods: reading any kind of workload, expanding some, and bringing their fate back. Pure.

`registry.py` is the table of kinds, a row (`kind.py`) for each, `kinds` has their code; `read.py` reads any of them,
`reconcile.py` decides what a controller (`controller.py`) does next, `lifecycle.py` is the life of a gang job. Begin
with `registry.py`.
"""
