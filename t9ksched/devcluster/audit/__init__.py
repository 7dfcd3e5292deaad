"""Checks that the cluster's own objects are consistent. Shares no code with what it audits. `auditor.py` checks one
state of the cluster, `shares.py` the parts of cards on it; `auditwatch.py` checks at every change. Begin with
`auditor.py`.
"""
