"""Does what stands in the cluster's own objects add up? Shares no code with what it audits.

`auditor.py` judges one picture of the cluster; `auditwatch.py` does so at every change. Begin with `auditor.py`.
"""
