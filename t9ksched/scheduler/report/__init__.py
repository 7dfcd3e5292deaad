"""Tells people and programs what happens: statuses, history, events, metrics, and jobs as JSON.

`status.py` is the one writer of statuses; `history_recorder.py` tells SQL (`sql_writer.py`) and events
(`event_writer.py`) what happens to each gang, `job_recorder.py` writes the latest state of each job. `observed_job.py`,
`job_shape.py` and `node_shape.py` are the form in which users see jobs and nodes, `vocabulary.py` the names that the
cluster knows. Begin with `history_recorder.py`.
"""
