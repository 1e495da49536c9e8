"""How Alembic reaches our database: through the connection that `bot.store.migrate` hands over."""

from alembic import context

from bot.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the transaction is the caller's
)
context.run_migrations()
