"""Simple controllers of a simulated cluster: Jobs, Deployments, volumes, taints of cordoned nodes, a default
scheduler. `follow.py` follows objects for all of them, `timers.py` calls them at later times, `podset.py` has what
controllers of pods share. Begin with `follow.py`.
"""
