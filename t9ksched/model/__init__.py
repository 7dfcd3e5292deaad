"""What things are: queues, PodGroups, pods, nodes, cards and reasons as frozen values. Imports nothing of ours.

Begin with `pod.py`, `podclass.py` and `gang.py`; `names.py` has the fixed names of the public interface.
"""
