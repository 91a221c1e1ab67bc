#!/usr/bin/env bash
# Runs every fuzz target, or the ones named: fuzz/run.sh SECONDS [TARGET…]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?seconds for each target}
shift
for target in "${@:-$(cargo +nightly fuzz list)}"; do
    for name in $target; do
        mkdir -p "fuzz/corpus/$name"
        # What is found goes to the corpus, which is not committed; the seeds are only read.
        cargo +nightly fuzz run "$name" "fuzz/corpus/$name" "fuzz/seeds/$name" -- \
            -max_total_time="$seconds" -max_len=8192 -print_final_stats=1
    done
done
