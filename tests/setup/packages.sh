# Debian packages that the build and the tests need. Sourced by tests/run, .ci/campaign and demo.

# need COMMAND PACKAGE...: adds the packages to `missing` unless the command exists.
need() {
    command -v "$1" >/dev/null || missing+=("${@:2}")
}

need_for_build() {
    need gcc build-essential
    need g++ build-essential
    need make build-essential
    need cmake cmake
    need perl perl
}

need_for_tests() {
    need curl curl ca-certificates
    need git git
    need python3 python3
    # The recipe of a consumer in Python.
    [ -e /usr/lib/python3/dist-packages/confluent_kafka ] || missing+=(python3-confluent-kafka)
    [ -e /usr/lib/python3/dist-packages/psycopg ] || missing+=(python3-psycopg)
    # Kafka, schema registries and DynamoDB are jars from Maven Central.
    need java default-jre-headless
    need mvn maven
    need redis-server redis-server
    # The alerts are evaluated by it and by promtool.
    need prometheus prometheus
    # The pollers of the migration tests are written in it.
    need go golang-go
    # pg_partman makes the partitions of an outbox; PostgreSQL 15 comes with it.
    [ -e /usr/share/postgresql/15/extension/pg_partman.control ] || missing+=(postgresql-15-partman)
    # The Debian package and its unit.
    need objdump binutils
    need systemd-analyze systemd
    # The status page is rendered by it.
    need chromedriver chromium chromium-driver
    [ "$(id -u)" = 0 ] || return 0
    # The image is tested with an engine of its own, which only root can start.
    need dockerd docker.io
    need docker-compose docker-compose
    need mmdebstrap mmdebstrap
}

# Installs what is in `missing`. Without root it prints the command and fails.
install_missing() {
    [ ${#missing[@]} -gt 0 ] || return 0
    local install="apt-get install --yes --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" != 0 ]; then
        printf 'packages are missing; fix:\n  sudo %s\n' "$install" >&2
        return 2
    fi
    if ! command -v apt-get >/dev/null; then
        printf 'packages are missing, and this system has no apt-get: %s\n' "${missing[*]}" >&2
        return 2
    fi
    apt-get update -qq || return
    DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null
}
