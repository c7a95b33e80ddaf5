#!/usr/bin/env bash
# TPC-H and TPC-DS beside DuckDB: over files at scale 1 and on live tables at scale 0.1, with a server of its own.
#
#     tpc.sh NYALA FOLDER
#
# NYALA is the binary; FOLDER keeps the data, the Python environment and the server's files for the next run (about 2 GB).
# POSTGRES, an address with a database of its own, also compares types of columns and texts of values with PostgreSQL 15's.
set -eu
nyala="$(realpath "$1")"
mkdir -p "$2"
work="$(realpath "$2")"
here="$(cd "$(dirname "$0")" && pwd)"
export PGHOST=127.0.0.1 PGPORT="${PGPORT:-15433}" PGUSER=nyala PGDATABASE=nyala

[ -d "$work/venv" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q duckdb==1.4.4 duckdb-ext-tpch==1.4.4.20260205 duckdb-ext-tpcds==1.4.4.20260205 'psycopg[binary]==3.3.*'

# data BENCHMARK SCALE NAME: the files, once.
data() {
  [ -d "$work/$3" ] && return
  "$nyala" gen "$1" --scale "$2" --out "$work/$3.part" >"$work/$3.log" 2>&1
  mv "$work/$3.part" "$work/$3"
}
for benchmark in tpch tpcds; do
  data $benchmark 1 ${benchmark}1
  data $benchmark 0.1 ${benchmark}01
done

"$nyala" serve --data-dir "$work/server" --postgres-listen "127.0.0.1:$PGPORT" --http-listen 127.0.0.1:0 >"$work/server.log" 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
for _ in $(seq 100); do
  (exec 3<>"/dev/tcp/127.0.0.1/$PGPORT") 2>/dev/null && break
  kill -0 $server || exit 1
  sleep 0.2
done

failed=0
python() { "$work/venv/bin/python" "$@" || failed=1; }
for benchmark in tpch tpcds; do
  python "$here/tpc_answers.py" $benchmark "$work/${benchmark}1"
  python "$here/tpc_answers.py" --live $benchmark "$work/${benchmark}01"
done
if [ -n "${POSTGRES:-}" ]; then
  data tpch 0.01 tpch001
  python "$here/tpc_types.py" --values tpch "$work/tpch001" "$POSTGRES"
  python "$here/tpc_types.py" tpcds "$work/tpcds01" "$POSTGRES"
fi
exit $failed
