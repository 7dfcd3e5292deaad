"""Carries out what was decided: bindings, evictions, ends of jobs, and what must be written before them.

`executor.py` binds, many at once; `preemption.py` promises room and evicts for it (`promises.py` keeps promises in
SQL); `cardkeeper.py` writes which cards a pod was given; `gang_timeouts.py` takes gangs back that stayed in part. Begin
with `executor.py`.
"""
