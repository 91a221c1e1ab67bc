#!/bin/bash
# Does what the official image's entry point does, as far as docker/compose.yaml and the test rely on it.
set -euo pipefail

if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA" /var/run/postgresql
    chown -R postgres:postgres /var/lib/postgresql /var/run/postgresql
    exec setpriv --reuid postgres --regid postgres --clear-groups "$0" "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") \
        --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C --no-instructions
    printf '\nhost all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    printf "\nunix_socket_directories = '/var/run/postgresql'\n" >>"$PGDATA/postgresql.conf"
    # The socket alone, until everything is set up.
    pg_ctl -w -o "-c listen_addresses='' ${*:2}" start
    psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d postgres -c "CREATE DATABASE \"$POSTGRES_DB\""
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
            *.sh) if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
            *.sql) psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -f "$file" ;;
        esac
    done
    pg_ctl -m fast -w stop
fi
exec "$@" -c listen_addresses='*'
