"""`/internal/v1`: answers about what only the leader knows, for replicas of the REST service.

`internal.py` is the server; `jobindex.py` finds jobs by name, queue and user, `explaining.py` explains why a job waits,
`holders.py` who holds what it needs; `timeline.py` says what runs until when, and what is planned. Begin with
`internal.py`.
"""
