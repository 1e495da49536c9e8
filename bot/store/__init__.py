"""PostgreSQL: tables, migrations, runs, pieces, effects, the inbox, and the embedded server."""
