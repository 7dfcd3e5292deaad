"""Alembic's entry. The connection comes from `t9ksched.store.schema`, which holds the right to migrate."""

from alembic import context

from t9ksched.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
