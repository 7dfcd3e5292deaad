"""From the cluster and from history into the state.

`informers.py` runs one reflector a kind and decodes what is read; `ahead.py` follows the watches before it is one's
turn to lead; `recall.py` finds out at a start which members were lost meanwhile. Begin with `informers.py`.
"""
