"""Tells people and programs what happens: statuses, history, events, metrics, and jobs as JSON.

`status.py` is the one writer of statuses, `history_recorder.py` tells the story of each gang to SQL (`sql_writer.py`)
and to events (`event_writer.py`), `shapes.py` is the form in which users see jobs and nodes, `vocabulary.py` the names
that the cluster knows. Begin with `history_recorder.py`.
"""
