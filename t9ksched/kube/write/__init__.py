"""The writes that are protocols of more than one request, or that must be guarded.

`binding.py` (with `volumes.py` before it) places pods, `dialects/` names their cards to nodes, `eviction.py` evicts
pods, `lease.py` and `standby.py` hold and ask for leadership, `leader_guard.py` refuses writes without it, `events.py`
writes Kubernetes events. Begin with `binding.py`.
"""
