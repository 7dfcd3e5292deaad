"""What a cluster must have before t9ksched can work: custom resource definitions and rights, and a report of what is
missing.

`rbac.py` is the list of what each process may do, `crds.py` installs the definitions, `doctor.py` finds what is missing
or in the way. Begin with `rbac.py`.
"""
