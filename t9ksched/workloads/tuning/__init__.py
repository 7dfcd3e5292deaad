"""The search of an AutoTuneExperiment: what may be tried, what is tried next, and which trial is not worth going on.

All of it is pure: the same experiment with the same results suggests the same, so a suggestion that was not put on
record before its controller died is made once more. Read `space.py` first, then `settings.py` and `suggest.py`.
"""
