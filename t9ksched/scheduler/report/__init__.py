"""Tells people and programs what happens: statuses, history, events, metrics, and jobs as JSON.

`status.py` is the one writer of statuses, `narrator.py` tells the story of each gang to SQL (`journal.py`) and to
events (`notices.py`), `shapes.py` is the form in which users see jobs and nodes, `vocabulary.py` the names that the
cluster knows. Begin with `narrator.py`.
"""
