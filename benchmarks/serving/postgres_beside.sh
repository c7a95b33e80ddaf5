#!/usr/bin/env bash
# Measures Nyala and PostgreSQL with the same cuboids in one run, one after the other: tables with a key over all dimensions,
# with an index for each, and with one for each way in which the queries search them. Nothing else should run meanwhile.
#
# usage: postgres_beside.sh DATA_DIR WORK_DIR     (DATA_DIR is Nyala's, with `benchmarks/ssb/cube.sql` built. WORK_DIR keeps
#                                                 PostgreSQL's tables for the next time, and the numbers. NYALA, POSTGRES_BIN,
#                                                 KINDS, MODE, CLIENTS, DURATION, ROUNDS, PORT and POSTGRES_PORT: see below)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
nyala=${NYALA:-nyala}
bin=${POSTGRES_BIN:-/usr/lib/postgresql/15/bin}
kinds=${KINDS:-plain columns fitting}
mode=${MODE:-simple} clients=${CLIENTS:-32,150} duration=${DURATION:-6s} rounds=${ROUNDS:-1}
nyala_port=${PORT:-5612} postgres_port=${POSTGRES_PORT:-5499}
if [ $# -ne 2 ]; then
  sed -n '5,7p' "$0" | cut -c3- >&2
  exit 2
fi
data=$1 work=$(mkdir -p "$2" && cd "$2" && pwd)
cluster=$work/postgres
nyala_url=postgres://127.0.0.1:$nyala_port/nyala
postgres_url=postgres://postgres@127.0.0.1:$postgres_port/postgres
server=""

as_postgres() { if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@"); else "$@"; fi; }

start_nyala() {
  NYALA_SERVER__MAX_CONNECTIONS=1200 "$nyala" serve --data-dir "$data" --postgres-listen "127.0.0.1:$nyala_port" \
    --http-listen "127.0.0.1:$((nyala_port + 3000))" >"$work/nyala.log" 2>&1 &
  server=$!
  until curl -sf "http://127.0.0.1:$((nyala_port + 3000))/readyz" >/dev/null; do
    kill -0 "$server" 2>/dev/null || { cat "$work/nyala.log" >&2 && exit 1; }
    sleep 0.2
  done
}

stop_nyala() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  server=""
}

start_postgres() {
  local settings="-c shared_buffers=2GB -c max_connections=1100 -c unix_socket_directories=$cluster"
  as_postgres "$bin/pg_ctl" -s -w -D "$cluster" -l "$cluster/server.log" start \
    -o "-p $postgres_port -c listen_addresses=127.0.0.1 $settings"
}

stop_postgres() { [ ! -f "$cluster/postmaster.pid" ] || as_postgres "$bin/pg_ctl" -s -w -m fast -D "$cluster" stop || true; }

trap 'stop_nyala; stop_postgres' EXIT

load() { # tables of every kind, unless an earlier run has left them
  if [ ! -d "$cluster" ]; then # under its name only when it is whole
    rm -rf -- "$cluster.new"
    mkdir "$cluster.new"
    [ "$(id -u)" != 0 ] || chown postgres "$cluster.new"
    as_postgres "$bin/initdb" -D "$cluster.new" -U postgres -A trust >/dev/null
    mv "$cluster.new" "$cluster"
  fi
  [ "$(cat "$cluster.loaded" 2>/dev/null)" != "$kinds" ] || return 0
  start_nyala
  start_postgres
  for kind in $kinds; do NYALA=$nyala "$here/postgres.sh" "$nyala_url" "$postgres_url" "$kind"; done
  echo "$kinds" >"$cluster.loaded"
  stop_postgres
  stop_nyala
}

measure() { # NAME WORKLOAD URL PID: after a warm-up that fills caches
  "$nyala" bench "$2" --url "$3" --mode "$mode" --clients 16 --duration 5s --warmup 10s --ceiling 0s >/dev/null
  "$nyala" bench "$2" --url "$3" --mode "$mode" --clients "$clients" --duration "$duration" --ceiling 0s --server-pid "$4" \
    --json "$work/$1.json" >"$work/$1.txt"
}

load
for round in $(seq "$rounds"); do
  start_nyala
  measure "nyala-$round" ssb "$nyala_url" "$server"
  stop_nyala
  files=("$work/nyala-$round.json")
  for kind in $kinds; do # each in a fresh server, so that memory is that of its own tables
    start_postgres
    url="$postgres_url?options=-c%20search_path%3D$kind"
    measure "$kind-$round" ssb-postgres "$url" "$(head -1 "$cluster/postmaster.pid")"
    stop_postgres
    files+=("$work/$kind-$round.json")
  done
  python3 "$here/ratios.py" "${files[@]}"
done
