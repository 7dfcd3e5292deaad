"""Work done by the clock or after changes in SQL: deadlines, time limits, queues, decisions of managers, leadership.

`housekeeping.py` runs the sweeps; `timekeeper.py` and `max_duration.py` enforce limits, `queue_sync.py` keeps Queue
objects equal to SQL, `overrides.py` follows the managers' decisions, `database_sync.py` reads SQL at the start and then
its change log. Begin with `housekeeping.py`.
"""
