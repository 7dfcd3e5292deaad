"""When to plan, and by which policy.

`loop.py` waits for a change, plans in slices on a view and hands over the decisions; `configuration.py` follows the
policy, `plugins.py` finds plugins of installed packages, `telling.py` records why jobs wait, `standstill.py` gives them
their reason during a stop of scheduling. Begin with `loop.py`.
"""
