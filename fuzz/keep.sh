#!/usr/bin/env bash
# Keeps of seeds and found inputs the fewest that reach the same code, in corpora/: fuzz/keep.sh [TARGET…], after fuzz/run.sh.
set -euo pipefail
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../target}")/fuzz
cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -s .rs -a fuzz_targets/*.rs)
for name in "${targets[@]}"; do
    rm -rf "kept/$name"
    mkdir -p "kept/$name" "corpus/$name" "seeds/$name"
    # A whole stream is long; of the rest long inputs show nothing that short ones do not.
    [ "$name" = stream ] && max_len=4096 || max_len=600
    "$target_dir/$host/release/$name" -merge=1 -max_len="$max_len" "kept/$name" "seeds/$name" "corpus/$name" 2>/dev/null
    perl -0777 -ne 'print unpack("H*", $_), "\n"' "kept/$name"/* | sort -u >"corpora/$name.hex"
    echo "$name: $(wc -l <"corpora/$name.hex") inputs, $(wc -c <"corpora/$name.hex") bytes"
done
