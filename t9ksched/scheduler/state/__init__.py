"""What the scheduler knows and assumes: the one owner of the state.

`state.py` has the tables and puts the parts together: `*_events.py` take in what the watches bring, `assumptions.py`
what was decided and not yet seen, `charges.py` has what each pod holds, and `reservations.py` what is promised.
`admission_pass.py` judges what waits by `admission_gate.py`, `lastgate.py` and `waitinglimits.py`; `snapshot.py` takes
the view to plan on; `change_feed.py` tells what changed. Nothing here knows any other room of the scheduler.
"""
