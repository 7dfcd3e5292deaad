"""From the queues of other schedulers to ours: objects of Kueue, Volcano and KAI in, specs of queues out, and of each
field what became of it. Pure.

`systems.py` is the table of schedulers, with the kinds and versions that are read; `objects.py` sorts documents into
kinds and finds what is wrong with them; `report.py` has what is told of fields. `kueue.py`, `volcano.py` and `kai.py`
translate one scheduler each. Begin with `systems.py`.
"""
