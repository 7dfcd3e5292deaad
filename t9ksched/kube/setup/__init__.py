"""What a cluster must have before we can work: custom resource definitions and rights, and what is told where not.

`rbac.py` is the list of what each process may do, `crds.py` puts our definitions into the cluster, `doctor.py` finds
what stands in the way. Begin with `rbac.py`.
"""
