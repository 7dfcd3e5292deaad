"""The fault lab: failures on request, between clients and cluster, on nodes and in clocks.

`faults.py` has the rules, `faultlab.py` the HTTP paths to set and see them. Begin with `faults.py`.
"""
