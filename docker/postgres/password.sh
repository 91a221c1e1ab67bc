#!/bin/sh
# Gives the relay's role its password. sql/role.sql makes the role and knows none.
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -v password="$OUTBOXD_PASSWORD" <<'SQL'
ALTER ROLE outboxd PASSWORD :'password';
SQL
