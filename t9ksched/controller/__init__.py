"""The service that creates the pods of job objects and writes the jobs' status from the state of the pods.

`picture.py` holds what it knows of the cluster, `workqueue.py` says which workload to reconcile next, `execute.py`
carries out what `workloads.reconcile` decided. Begin with `service.py`.
"""
