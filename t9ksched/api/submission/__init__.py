"""From a body to objects in the cluster: all of them, recorded, or none; and their end.

`submission.py` reads the request, `judging.py` refuses what the rules do not allow, `creation.py` creates the objects,
`recording.py` records them, `recovery.py` completes or removes what a lost process left; `cancelling.py` deletes jobs.
Begin with `submission.py`.
"""
