"""Alembic's entry: runs migrations on the connection that the store hands over."""

from alembic import context

from assay.store.tables import SeriesRow  # with its module, every table is known

context.configure(
    connection=context.config.attributes["connection"], target_metadata=SeriesRow.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
