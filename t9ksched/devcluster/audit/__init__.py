"""Checks that the cluster's own objects are consistent. Shares no code with what it audits. `auditor.py` checks one
state of the cluster; `auditwatch.py` checks at every change. Begin with `auditor.py`.
"""
