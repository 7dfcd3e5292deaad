"""Brings the cluster's objects and the history into the state. `informers.py` runs one reflector a kind and decodes
what is read; `ahead.py` follows the watches while the process is a standby; `recall.py` finds out at a start which
members were lost meanwhile. Begin with `informers.py`.
"""
