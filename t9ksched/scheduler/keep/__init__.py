"""What is looked at by the clock or follows SQL: deadlines, time limits, queues, decisions of managers, leadership.

`housekeeping.py` runs the sweeps; `timekeeper.py` and `durations.py` enforce limits, `projection.py` keeps Queue
objects equal to SQL, `directions.py` follows what managers decided. Begin with `housekeeping.py`.
"""
