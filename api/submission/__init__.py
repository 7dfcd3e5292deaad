"""From a body to objects in the cluster: all of them, recorded, or none; and their end.

`submission.py` reads what is asked for, `judging.py` says what speaks against it, `creation.py` creates,
`recording.py` records, `recovery.py` settles what a lost process left; `cancelling.py` deletes. Begin with
`submission.py`.
"""
