#!/usr/bin/env bash
# Compares allocators and their settings: throughput, CPU and memory of the server under many clients, in rounds that
# take turns, so that what else the machine does meets all of them. Without OUT_DIR/nyala-NAME it builds that binary.
#
# usage: allocators.sh DATA_DIR OUT_DIR [VARIANT…]     (ROUNDS, CLIENTS and DURATION set how much; default: all variants)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
  sed -n '5p' "$0" | cut -c3- >&2
  exit 2
fi
data=$(realpath "$1") out=$2
shift 2
mkdir -p "$out"
out=$(realpath "$out")
postgres=127.0.0.1:5612 http=127.0.0.1:8612
url=postgres://$postgres/nyala
server=""

# name, allocator, what it finds in its environment
variants='
mimalloc           mimalloc
mimalloc-no-thp    mimalloc  MIMALLOC_ALLOW_THP=0
mimalloc-purge     mimalloc  MIMALLOC_ALLOW_THP=0 MIMALLOC_PURGE_DELAY=0
jemalloc           jemalloc
jemalloc-4         jemalloc  _RJEM_MALLOC_CONF=narenas:4
jemalloc-tight     jemalloc  _RJEM_MALLOC_CONF=narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0
jemalloc-tcache    jemalloc  _RJEM_MALLOC_CONF=narenas:2,dirty_decay_ms:1000,tcache_max:4096
system             system
system-2           system    MALLOC_ARENA_MAX=2
system-trim        system    MALLOC_ARENA_MAX=2 MALLOC_TRIM_THRESHOLD_=1048576 MALLOC_MMAP_THRESHOLD_=1048576
'

binary() { # ALLOCATOR: its binary, built if it is not there
  local file=$out/nyala-$1 features=()
  [ "$1" = mimalloc ] && features=(--no-default-features --features nyala-cli/mimalloc)
  [ "$1" = system ] && features=(--no-default-features)
  if [ ! -x "$file" ]; then
    (cd "$here/../.." && cargo build --release --workspace --bin nyala "${features[@]}" >&2 &&
      cp "${CARGO_TARGET_DIR:-target}/release/nyala" "$file.new" && mv "$file.new" "$file")
  fi
  echo "$file"
}

stop() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  server=""
}
trap stop EXIT

measure() { # NAME BINARY ROUND [NAME=VALUE…]: one line of numbers for each number of clients
  local name=$1 nyala=$2 round=$3 json=$out/$1-$3.json
  shift 3
  env "$@" "$nyala" serve --data-dir "$data" --postgres-listen "$postgres" --http-listen "$http" >"$out/server.log" 2>&1 &
  server=$!
  until curl -sf "http://$http/readyz" >/dev/null; do
    kill -0 "$server" # a server that could not start ends the script
    sleep 0.2
  done
  # The client is always the same program.
  "$client" bench ssb --url "$url" --clients 16 --duration 3s --warmup 6s --ceiling 0s >/dev/null
  "$client" bench ssb --url "$url" --clients "${CLIENTS:-32,150}" --duration "${DURATION:-5s}" --warmup 3s --ceiling 0s \
    --server-pid "$server" --json "$json" >/dev/null
  python3 - "$name" "$round" "$json" "$server" <<'PYTHON' | tee -a "$out/numbers.tsv"
import json, sys
name, round_, path, pid = sys.argv[1:]
memory = dict(line.split(":", 1) for line in open(f"/proc/{pid}/smaps_rollup").read().splitlines()[1:])
megabytes = lambda name: int(memory[name].split()[0]) * 1024 / 1e6
for run in json.load(open(path))["runs"]:
    cost = run["cost"]
    print(name, round_, run["clients"], f'{run["per_second"]:.0f}', f'{run["total"]["p99_ms"]:.1f}',
          f'{cost["server_cpu_ms_per_query"]:.4f}', f'{cost["server_memory_bytes"] / 1e6:.0f}', f'{megabytes("Pss"):.0f}', f'{megabytes("Pss_Anon"):.0f}', sep="\t")
PYTHON
  stop
}

client=$(binary jemalloc)
: >"$out/numbers.tsv"
for round in $(seq "${ROUNDS:-3}"); do
  while read -r name allocator settings; do
    [ -n "$name" ] || continue
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    # shellcheck disable=SC2086 # settings are words
    measure "$name" "$(binary "$allocator")" "$round" $settings
  done <<<"$variants"
done

python3 - "$out/numbers.tsv" <<'PYTHON' | tee "$out/allocators.md"
import statistics, sys
rows = [line.split("\t") for line in open(sys.argv[1]).read().splitlines()]
print("| allocator | clients | queries/s | p99 ms | server CPU ms | server MB | MB when idle again | of it not the binary's |")
print("|---|---|---|---|---|---|---|---|")
for name, clients in dict.fromkeys((row[0], row[2]) for row in rows):
    of = [[float(value) for value in row[3:]] for row in rows if (row[0], row[2]) == (name, clients)]
    speed, p99, cpu, memory, idle, own = (statistics.median(column) for column in zip(*of))
    print(f"| {name} | {clients} | {speed:,.0f} | {p99:.1f} | {cpu:.3f} | {memory:.0f} | {idle:.0f} | {own:.0f} |")
PYTHON
