"""Volume claims: their known state, the pods that use them, and how they restrict the nodes of a pod.

`storage.py` keeps claims, volumes, classes and limits of nodes, `claims.py` says what they mean for a pod, and
`claimants.py` finds the pods that must be judged again when one changes. Begin with `claims.py`.
"""
