#!/usr/bin/env bash
# Makes fuzz/seeds from what is recorded in tests: pgoutput messages bare, inside XLogData, inside a frame, and as whole streams; what
# a server says at login; values of columns, rows, offsets, LSNs. fuzz/keep.sh takes them into corpora/.
set -euo pipefail
cd "$(dirname "$0")"
captures=../tests/golden/pgoutput

seed() { # TARGET NAME HEX
    mkdir -p "seeds/$1"
    xxd -revert -plain <<<"$3" >"seeds/$1/$2"
}

frame() { # TAG-HEX BODY-HEX
    printf '%s%08x%s' "$1" $((${#2} / 2 + 4)) "$2"
}

text() { # TEXT, with \0 and the like
    printf "$1" | xxd -plain | tr -d '\n'
}

rm -rf seeds
for capture in "$captures"/*.pg18.hex; do
    case=$(basename "$capture" .pg18.hex)
    while read -r _ message; do
        name=$case-$(xxd -revert -plain <<<"${message:0:2}")
        [[ -e seeds/pgoutput_message/$name ]] && continue
        xlogdata=77$(printf '%016x%016x%016x' 23976920 23976968 766108800000000)$message
        seed pgoutput_message "$name" "$message"
        seed replication_message "$name" "$xlogdata"
        [[ $case == insert || $case == schema_change ]] && seed backend_frame "$name" "$(frame 64 "$xlogdata")"
    done <"$capture"
done

# Whole streams, framed, and two in one.
for capture in "$captures"/*.pg18.hex; do
    case=$(basename "$capture" .pg18.hex)
    stream=$(while read -r _ message; do
        frame 64 "77$(printf '%016x%016x%016x' 23976920 23976968 766108800000000)$message"
    done <"$capture")
    seed stream "$case" "$stream"
done

# Values of columns, with the names of their types.
tail -n +2 ../tests/cases/columns.tsv | cut -f 1,3 | sort -u | while IFS= read -r line; do
    name=$(sha1sum <<<"$line" | cut -c 1-12)
    seed column_value "$name" "$(printf %s "$line" | xxd -plain | tr -d '\n')"
done

# Rows: the number of the options, then the values.
n=0
for payload in '{}' '{"a": 1, "b": [1, 2.5, null], "c": {"d": "x"}, "e": []}' '[{"a": 1}, {"b": "\u0000"}]' '[]' 'null' \
    '12345678901234567890.5' '"text"' '[{"a":1},{"b":2},{"c":{"d":1}},{"c":{"e":[{"f":1},{"g":null}]}},{},null]' '{"a": 1e400, "n": 9007199254740993}' '{not json'; do
    for options in 0 1 2 3 4 5 6 7; do
        row=$(printf %s "$payload" | xxd -plain | tr -d '\n')
        seed row "$((n++))" "0$options$(text 'b3c5a6d0-0000-4000-8000-000000000000\0Order\0o-1\0Created\0')${row}00$(text 'a note')"
    done
done
seed row null "02$(text 'id\0Order\0\1\0\1\0\1\0\1')"

seed logical_message plain "$(text '{"id":"1","aggregateType":"User","aggregateId":"2","payload":{"a":[1,null]},"type":"T"}')"
seed logical_message distinct "$(text '{"id":"1","aggregateType":"User","aggregateId":"2","payload":[{"a":1},{"b":2},{"c":{"d":1}},{"c":{"e":[{"f":1},{"g":null}]}},{},null],"type":"T"}')"
seed logical_message all "$(text '{"id":1,"aggregateType":"U","aggregateId":null,"payload":"x","p":3,"at":1553460779000,"note":"n","more":2.5}')"
seed quoting plain "$(text 'orders_outbox\ndbz_publication\norigin\nnone')"
seed quoting hostile "$(text 'a"b\nx'\''"\\y\n"\n'\''; --')"

keepalive=6b$(printf '%016x%016x01' 23976968 766108800000000)
seed replication_message keepalive "$keepalive"
seed backend_frame keepalive "$(frame 64 "$keepalive")"
seed backend_frame sasl "$(frame 52 "0000000a$(text 'SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0')")"
seed backend_frame md5 "$(frame 52 0000000501020304)"
ready=$(frame 5a 49)
seed backend_frame login "$(frame 52 00000000)$(frame 53 "$(text 'server_version\00018.4\0')")$(frame 4b 0000002a00000001)$ready"
field=$(text 'systemid\0')00000000000000000019ffffffffffff0000
row=$(frame 54 "0002$field$field")$(frame 44 "000200000001$(text 1)ffffffff")$(frame 43 "$(text 'IDENTIFY_SYSTEM\0')")
seed backend_frame row "$row$ready"
seed backend_frame copy "$(frame 57 000000)$(frame 64 "$keepalive")$(frame 63 '')"
seed backend_frame error "$(frame 45 "$(text 'SFATAL\0VFATAL\0C57P01\0Mterminating\0Dwhy\0Hdo\0\0')")"
seed offset_map debezium-server "$(xxd -plain ../tests/golden/offsets/debezium-server-3.6.0.dat | tr -d '\n')"
tail -n +2 ../crates/change-events/src/source_offset/cases/offsets.tsv | while IFS=$'\t' read -r version offset _; do
    seed source_offset "${version// /-}" "$(printf %s "$offset" | xxd -plain | tr -d '\n')"
done
for lsn in 0/0 16/B374D848 ffffffff/FFFFFFFF; do
    seed lsn "${lsn/\//-}" "$(text "$lsn")"
done
