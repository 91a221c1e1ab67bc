# A store of dependency builds in the user's cache folder. Sourced by tests/run and .ci/campaign.
#
# Cargo checks each build that it finds against Cargo.lock, profile and compiler, so that a copy of another commit's builds is
# used as far as it is valid, and never further.

DEPENDENCIES=${XDG_CACHE_HOME:-$HOME/.cache}/outboxd/dependencies
# The number of copies that are retained; one has 2 to 3 GB.
DEPENDENCIES_MAX=2

# Fills an empty target folder with the builds of the same Cargo.lock, or else with the newest ones.
restore_dependencies() {
    local target=${CARGO_TARGET_DIR:-target} from
    [ ! -e "$target/debug" ] || return 0
    from=$DEPENDENCIES/$(dependencies_key)
    [ -e "$from" ] || from=$(newest_dependencies)
    [ -n "$from" ] || return 0
    mkdir -p "$target" && cp -a "$from/." "$target/" || return
    # The last use decides which copy is removed first.
    touch "$from"
}

# Stores the builds, without those of this workspace.
store_dependencies() {
    local target=${CARGO_TARGET_DIR:-target} to partial package
    to=$DEPENDENCIES/$(dependencies_key)
    [ ! -e "$to" ] || return 0
    partial=$DEPENDENCIES/partial.$$
    mkdir -p "$partial/debug"
    for package in build deps .fingerprint; do
        cp -a "$target/debug/$package" "$partial/debug/" || return
    done
    for package in "$target"/CACHEDIR.TAG "$target"/.rustc_info.json; do
        [ ! -e "$package" ] || cp -a "$package" "$partial/"
    done
    cargo clean --quiet --locked --target-dir "$partial" --workspace || return
    mv "$partial" "$to" || return
    find "$DEPENDENCIES" -mindepth 1 -maxdepth 1 -printf '%T@ %p\n' | sort -rn | tail -n +$((DEPENDENCIES_MAX + 1)) |
        cut -d' ' -f2- | xargs -r rm -rf
}

newest_dependencies() {
    [ -d "$DEPENDENCIES" ] || return 0
    find "$DEPENDENCIES" -mindepth 1 -maxdepth 1 ! -name 'partial.*' -printf '%T@ %p\n' | sort -rn | head -n 1 | cut -d' ' -f2-
}

dependencies_key() {
    { rustc -vV; cat Cargo.lock Cargo.toml crates/*/Cargo.toml inbox/Cargo.toml .cargo/config.toml; } | sha256sum | cut -c1-16
}
