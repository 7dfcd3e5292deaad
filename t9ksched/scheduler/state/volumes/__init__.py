"""Volume claims: their known state, the pods that use them, and how they restrict the nodes of a pod.

`storage.py` takes in what the watches bring, `claims.py` keeps claims, volumes, classes and limits of nodes and says
what a claim means, `free.py` says where free volumes lie, `meanings.py` keeps meanings until they change, and
`claimants.py` finds the pods that must be judged again then. Begin with `claims.py`.
"""
