"""The fault lab: what goes wrong between clients and cluster, on nodes and with clocks, when somebody asks for it.

`faults.py` has the rules, `faultlab.py` the HTTP paths to set and see them. Begin with `faults.py`.
"""
