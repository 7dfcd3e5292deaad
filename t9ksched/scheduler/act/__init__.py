"""Carries out decisions: bindings, evictions, ends of jobs, and what must be recorded before them.

`executor.py` binds, many at once; `preemption.py` promises room and evicts for it (`promises.py` keeps promises in
SQL); `cardkeeper.py` records which cards a pod was given; `gang_timeouts.py` evicts gangs that stay incomplete. Begin
with `executor.py`.
"""
