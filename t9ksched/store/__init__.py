"""What is remembered: queues, tokens, acceptances, history, the last known state of jobs.

The only room that speaks SQL. One code serves SQLite (one process) and PostgreSQL (many); transactions are short and
never contain a network call. Callers open a `Store` and use its repositories; SQLAlchemy's types and errors end here.
"""

from t9ksched.store.store import Store

__all__ = ["Store"]
