#!/bin/bash
# Asks foreign suites of PostgreSQL and of Nyala, and compares the answers: README.md beside this file.
#
#   run.sh [datafusion|sqlite|sqlsmith|random …]    the first three without a name
#
# From the environment: NYALA (the binary), WORK (a folder for everything that is fetched and built), EVERY, FILES, SEED, CONNECTIONS
# (how much of SQLite's corpus, and by how many connections), QUERIES (of sqlsmith), COUNT, SEED, OFF, MOST and CUBES (of random: README.md),
# PORT (the first of three), PGBIN.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
WORK=${WORK:-/tmp/nyala-foreign}
NYALA=${NYALA:-$root/target/release/nyala}
PGBIN=${PGBIN:-/usr/lib/postgresql/15/bin}
PORT=${PORT:-15640}
EVERY=${EVERY:-20} FILES=${FILES:-1} SEED=${SEED:-1} CONNECTIONS=${CONNECTIONS:-2} QUERIES=${QUERIES:-20000}
COUNT=${COUNT:-10000} OFF=${OFF:-} MOST=${MOST:-20}
postgres="host=127.0.0.1 port=$((PORT + 2)) user=nyala dbname=nyala"
nyala="host=127.0.0.1 port=$PORT user=nyala dbname=nyala"
mkdir -p "$WORK"

# PostgreSQL refuses to run as root.
as_postgres() { if [ "$(id -u)" = 0 ]; then su postgres -c "$1"; else bash -c "$1"; fi; }

stop() {
  [ -z "${server:-}" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } || true
  as_postgres "$PGBIN/pg_ctl -D $WORK/pg/data -m immediate stop" >/dev/null 2>&1 || true
}

start() {
  rm -rf "$WORK/pg" "$WORK/data" && mkdir "$WORK/pg" "$WORK/out" -p
  [ "$(id -u)" != 0 ] || chown postgres "$WORK/pg"
  # Texts in the order of their bytes, as Nyala has them, and letters of all languages.
  as_postgres "$PGBIN/initdb -A trust -U nyala -E UTF8 --lc-collate=C --lc-ctype=C.UTF-8 --lc-messages=C -D $WORK/pg/data" >/dev/null
  as_postgres "$PGBIN/pg_ctl -D $WORK/pg/data -o '-p $((PORT + 2)) -k $WORK/pg -c fsync=off -c timezone=UTC -c listen_addresses=127.0.0.1' -l $WORK/pg/log -w start" >/dev/null
  psql -qX -h 127.0.0.1 -p $((PORT + 2)) -U nyala postgres -c "CREATE DATABASE nyala"
  "$NYALA" serve --data-dir "$WORK/data" --postgres-listen 127.0.0.1:"$PORT" --http-listen 127.0.0.1:$((PORT + 1)) >"$WORK/out/server.log" 2>&1 &
  server=$!
  for _ in $(seq 100); do psql -qXAt "$nyala" -c "SELECT 1" >/dev/null 2>&1 && return; sleep 0.2; done
  echo "Nyala does not answer: $WORK/out/server.log" >&2 && exit 1
}

# DataFusion's files lie in a crate of the version that Nyala is built with.
fetch_datafusion() {
  version=$(grep -A1 '^name = "datafusion"$' "$root/Cargo.lock" | sed -n 's/version = "\(.*\)"/\1/p')
  [ -d "$WORK/datafusion-sqllogictest-$version" ] && { echo "$WORK/datafusion-sqllogictest-$version/test_files"; return; }
  cargo info --registry crates-io "datafusion-sqllogictest@$version" >/dev/null 2>&1
  tar xzf "$(ls "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/datafusion-sqllogictest-"$version".crate | head -1)" -C "$WORK"
  echo "$WORK/datafusion-sqllogictest-$version/test_files"
}

# SQLite's corpus lies in a jar, as resources: 110 MB, 1 GB unpacked.
fetch_sqlite() {
  [ -d "$WORK/sqlite/test" ] && { echo "$WORK/sqlite/test"; return; }
  mvn -q org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact=net.hydromatic:sql-logic-test:0.3:jar -DoutputDirectory="$WORK" >/dev/null
  mkdir -p "$WORK/sqlite" && (cd "$WORK/sqlite" && jar xf "$WORK/sql-logic-test-0.3.jar" test)
  echo "$WORK/sqlite/test"
}

fetch_sqlsmith() {
  python3 "$here/sqlsmith_records.py" "$QUERIES" "$SEED" "$WORK/sqlsmith" "$postgres" >&2
  echo "$WORK/sqlsmith"
}

# Random queries need no runner: Python asks both servers.
ask_random() {
  [ -d "$WORK/venv" ] || python3 -m venv "$WORK/venv"
  "$WORK/venv/bin/pip" install -q $(grep -E '^(psycopg|pyarrow)' "$here/../compat/requirements.txt")
  "$WORK/venv/bin/python" "$here/random/ask.py" --postgres "$postgres" --nyala "$nyala" --folder "$WORK/files" --count "$COUNT" --seed "$SEED" \
    --off "$OFF" --most "$MOST" --examples ${CUBES:+--cubes} | tee "$WORK/out/random.txt"
}

least() { awk -v suite="$1" '$1 == suite { print $2 }' "$here/expected.txt"; }

trap stop EXIT
[ "$*" = random ] || CARGO_TARGET_DIR="$WORK/target" cargo build -q --release --locked --manifest-path "$here/runner/Cargo.toml"
start
failed=0
for suite in "${@:-datafusion sqlite sqlsmith}"; do for suite in $suite; do
  [ "$suite" != random ] || { ask_random || failed=1; continue; }
  folder=$("fetch_$suite")
  sample=(); [ "$suite" != sqlite ] || sample=(--every "$EVERY" --files "$FILES" --seed "$SEED")
  "$WORK/target/release/foreign-suites" "$suite" "$folder" --nyala "$nyala" --postgres "$postgres" --skipped "$here/skipped.txt" \
    --differences "$WORK/out/$suite.txt" --connections "$CONNECTIONS" --least "$(least "$suite")" "${sample[@]}" || failed=1
done; done
if grep -q panicked "$WORK/out/server.log"; then echo "panics in $WORK/out/server.log" && failed=1; fi
echo "differences, with the answers of file, PostgreSQL and Nyala: $WORK/out"
exit $failed
