"""What the scheduler knows and assumes: the one owner of the state.

`cluster_cache.py` takes in what the watches bring, `state.py` adds what was decided and not yet seen, `charges.py`
says who holds what, and `reservations.py` what is promised. `admission_gate.py`, `membership.py`, `lastgate.py` and
`waitinglimits.py` decide what is accepted. Nothing here knows the loop, the executor or anything else of the
scheduler. Begin with `state.py`.
"""
