#!/usr/bin/env bash
# Makes fuzz/seeds anew from the captures in tests/golden: one pgoutput message of each kind from each case, bare, inside
# XLogData, and inside a frame; beside them what a server says at login, and LSNs.
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
tail -n +2 ../src/source_offset/cases/offsets.tsv | while IFS=$'\t' read -r version offset _; do
    seed source_offset "${version// /-}" "$(printf %s "$offset" | xxd -plain | tr -d '\n')"
done
for lsn in 0/0 16/B374D848 ffffffff/FFFFFFFF; do
    seed lsn "${lsn/\//-}" "$(text "$lsn")"
done
