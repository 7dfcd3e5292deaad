"""The service that turns job objects into pods and the fate of pods into job status.

`picture.py` is what it knows of the cluster, `workqueue.py` says what to look at next, `execute.py` carries out what
`workloads.reconcile` decided. Begin with `service.py`.
"""
