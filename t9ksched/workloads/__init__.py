"""How a job becomes pods: reading any kind of workload, expanding some, and bringing their fate back. Pure.

`registry.py` is the table of kinds, `kinds` has a file for each; `read.py` reads any of them, `reconcile.py` decides
what a controller does next, `lifecycle.py` is the life of a gang job. Begin with `read.py`.
"""
