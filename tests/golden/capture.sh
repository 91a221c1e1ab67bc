#!/usr/bin/env bash
# Records what a live server's pgoutput says for every case in pgoutput/*.sql:
#
#   tests/golden/capture.sh 'host=127.0.0.1 port=5432 user=postgres' pg15 [CASE…]
#   UPDATE_GOLDEN=1 cargo test --test checks golden
#
# The first argument is a conninfo in key=value form for a superuser of a server (14 or later) with
# wal_level=logical; the second is the label of the files written, pgoutput/<case>.<label>.hex. Each line of those is
# one message: its LSN and its bytes. Each case runs in a database and a slot of its own; both are dropped, whatever
# happens, and so are the replication origins that a case makes (their names start with outboxd_golden).
#
# A case makes the publication p. Its first line may add options for the plugin: -- pgoutput: 'binary', 'true'
set -euo pipefail

conninfo=${1:?conninfo} label=${2:?label}
shift 2
cd "$(dirname "$0")/pgoutput"
scratch=outboxd_golden_$$

# What a row's text form depends on is fixed here.
export PGOPTIONS='-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex -c client_min_messages=warning'
export PGCLIENTENCODING=UTF8

sql() { # DATABASE [PSQL ARGUMENT…]
    psql --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 "$conninfo dbname=$1" "${@:2}"
}

clean_up() {
    sql postgres >/dev/null <<SQL
select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '$scratch';
select pg_replication_origin_drop(roname) from pg_replication_origin where roname like 'outboxd\_golden%';
drop database if exists $scratch;
SQL
}

capture() { # CASE
    local options
    options=$(sed -n '1s/^-- pgoutput: /, /p' "$1.sql")
    sql postgres --command "create database $scratch template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C'"
    sql "$scratch" --command "select pg_create_logical_replication_slot('$scratch', 'pgoutput')" >/dev/null
    sql "$scratch" --file "$1.sql" >/dev/null
    sql "$scratch" --command "select lsn || ' ' || encode(data, 'hex')
        from pg_logical_slot_peek_binary_changes('$scratch', null, null,
            'proto_version', '1', 'publication_names', 'p', 'messages', 'true'$options)" >"$1.$label.hex"
    clean_up
}

trap clean_up EXIT
for case in "${@:-*.sql}"; do
    for file in ${case%.sql}.sql; do
        capture "${file%.sql}"
        echo "${file%.sql}: $(wc -l <"${file%.sql}.$label.hex") messages" >&2
    done
done
