"""What the scheduler knows and assumes: the one owner of the state.

`state.py` has the tables and puts the parts together: `*_events.py` take in what the watches bring, `assumptions.py`
keeps decisions that the watches do not show yet, `charges.py` has what each pod holds, and `reservations.py` what is
promised. `admission_pass.py` judges waiting groups by `admission_gate.py`, `lastgate.py` and `waitinglimits.py`, and
`standing.py` says how long a verdict stands; `snapshot.py` takes the view to plan on; `change_feed.py` reports what
changed. No module here imports another package of the scheduler.
"""
