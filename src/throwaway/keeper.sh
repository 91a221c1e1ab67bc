# Keeps one throwaway PostgreSQL for the process at the other end of standard input. Takes one order a line, answers each
# with "ok" or "failed", and removes server and folder when the orders end, however the other process ended.
#
#   initdb                   a new cluster
#   start PORT ATTEMPTS      until it accepts connections
#   stop SIGNAL TICKS        until it is gone; a tick is 50 ms
#   kill                     SIGKILL for every process of the server, as if the power failed
#
# arguments: the folder of the programs, the folder to keep, and what initdb is told
bin=$1 folder=$2
shift 2
data=$folder/data
log=$folder/server.log
lock=$data/postmaster.pid
server=

start() {
    attempts=$2
    until start_once "$1"; do
        attempts=$((attempts - 1))
        [ "$attempts" -gt 0 ] || return 1
        sleep 0.1
    done
}

start_once() {
    "$bin/postgres" -D "$data" -p "$1" </dev/null >>"$log" 2>&1 &
    server=$!
    until ready; do
        running || return 1
        sleep 0.05
    done
}

# The first line of the lock file tells our server from one that crashed, the last one how far it is.
ready() { [ "$(head -n 1 "$lock" 2>/dev/null)" = "$server" ] && grep -q '^ready' "$lock"; }

# `jobs` lets the shell reap a server that has left; a zombie would still take signals.
running() { jobs >/dev/null; [ -n "$server" ] && kill -0 "$server" 2>/dev/null; }

stop() {
    ticks=$2
    kill -s "$1" "$server" 2>/dev/null
    while running; do
        ticks=$((ticks - 1))
        [ "$ticks" -gt 0 ] || return 1
        sleep 0.05
    done
    server=
}

# $children is a list of process ids, so it stands without quotes. One that has already left is no failure.
crash() {
    children=$(cat "/proc/$server/task/$server/children" 2>/dev/null)
    kill -s KILL "$server" $children 2>/dev/null
    wait "$server" 2>/dev/null
    server=
}

clean_up() {
    trap '' EXIT HUP INT TERM
    stop QUIT 100 || crash
    rm -rf "$folder"
}

trap clean_up EXIT
trap 'exit 1' HUP INT TERM
# Answering somebody who just died must not end us before we have cleaned up.
trap '' PIPE

while read -r order first second; do
    case $order in
        initdb) "$bin/initdb" -D "$data" "$@" </dev/null >>"$log" 2>&1 ;;
        start) start "$first" "$second" ;;
        stop) stop "$first" "$second" ;;
        kill) crash ;;
        *) false ;;
    esac && answer=ok || answer=failed
    echo "$answer" 2>/dev/null
done
