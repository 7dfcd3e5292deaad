"""Reports what happens to users and programs: statuses, history, events, metrics, and jobs as JSON. `status.py` is the
one writer of statuses; `history_recorder.py` records what happens to each gang in SQL (`sql_writer.py`) and events
(`event_writer.py`), `job_recorder.py` writes the latest state of each job. `observed_job.py`, `job_shape.py` and
`node_shape.py` are the form in which users see jobs and nodes, `vocabulary.py` the names that the cluster knows. Begin
with `history_recorder.py`.
"""
