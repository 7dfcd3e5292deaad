"""Trivial controllers, so that a simulated cluster lives: Jobs, Deployments, volumes, a default scheduler.

`follow.py` is how each of them follows objects, `timers.py` how they wait, `podset.py` what makers of pods share. Begin
with `follow.py`.
"""
