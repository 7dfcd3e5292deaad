"""Volume claims: what is known of them, which pods use them, and what they mean for where a pod can go.

`storage.py` keeps claims, volumes, classes and limits of nodes, `claims.py` says what they mean for a pod, and
`claimants.py` finds the pods that must be judged again when one changes. Begin with `claims.py`.
"""
