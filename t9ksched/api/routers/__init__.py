"""The endpoints, one router a resource: what a request means, and nothing of how it is done.

`workloads.py` submits, lists and cancels jobs, `queues.py` has queues and their members; the others are shorter. Begin
with `workloads.py`.
"""
