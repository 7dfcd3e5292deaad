"""What is remembered: queues, tokens, acceptances, history, the last known state of jobs.

The only package that speaks SQL. One code serves SQLite (one process) and PostgreSQL (many). Transactions are short and
never contain a network call. Callers open a `Store` and use its repositories; types and errors of SQLAlchemy do not
leave the package. Begin with `store.py`.
"""

from t9ksched.store.store import Store

__all__ = ["Store"]
