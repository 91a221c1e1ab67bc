#!/usr/bin/env bash
# Fuzzes every target, or the ones named: fuzz/run.sh SECONDS [TARGET…]. Needs the stable toolchain and a C++ compiler, nothing
# else: coverage is LLVM's own pass, and libFuzzer comes with the crate. There is no address sanitizer, which stable Rust has not
# got; the sans-io half has no unsafe code for it to watch.
set -euo pipefail
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../target}")/fuzz
cd "$(dirname "$0")"
seconds=${1:?seconds for each target}
shift
host=$(rustc -vV | sed -n 's/^host: //p')
rustflags=(
    -Cpasses=sancov-module -Ccodegen-units=1
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
)

main() {
    # With --target the flags are for what is fuzzed, not for what is run while it is built.
    CARGO_TARGET_DIR=$target_dir RUSTFLAGS="${rustflags[*]}" \
        cargo build --quiet --locked --release --bins --target "$host"
    local targets=("$@")
    [ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -s .rs -a fuzz_targets/*.rs)
    for name in "${targets[@]}"; do
        fuzz "$name" || fail "$name"
    done
}

# What is found goes to corpus/, which is not committed; the kept inputs are unpacked beside it, and only read.
fuzz() {
    mkdir -p "corpus/$1" "artifacts/$1"
    unpack "$1"
    "$target_dir/$host/release/$1" "corpus/$1" "unpacked/$1" -max_total_time="$seconds" -max_len=4096 \
        -rss_limit_mb=256 -timeout=5 -artifact_prefix="artifacts/$1/" -print_final_stats=1 >"artifacts/$1.log" 2>&1 || return
    local runs
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "artifacts/$1.log")
    echo "$1: $runs inputs, no failure"
}

# corpora/NAME.hex has an input a line.
unpack() {
    rm -rf "unpacked/$1"
    mkdir -p "unpacked/$1"
    DIR=unpacked/$1 perl -ne 'chomp; open(my $f, ">:raw", "$ENV{DIR}/$.") or die $!; print $f pack("H*", $_)' "corpora/$1.hex"
}

fail() {
    tail -n 40 "artifacts/$1.log"
    echo "$1: an input that fails it is in fuzz/artifacts/$1, and here in hexadecimal:"
    for file in "artifacts/$1"/*; do
        perl -0777 -ne 'print "$ARGV ", unpack("H*", $_), "\n"' "$file"
    done
    exit 1
}

main "$@"
