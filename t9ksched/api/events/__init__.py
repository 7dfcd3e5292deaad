"""The stream of events: what happens to jobs, queues and nodes, told as it happens, and again from where a client
stopped.

Begin with `hub.py`, which reads history once for all who listen; `sight.py` says what each may see, `listener.py` is
one client's place, `stream.py` the answer.
"""
