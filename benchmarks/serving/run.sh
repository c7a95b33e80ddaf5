#!/usr/bin/env bash
# Measures a Nyala server on this machine: how throughput grows with clients, what planning costs, dashboards beside
# heavy queries, little memory, and a soak. Nothing else should run meanwhile.
#
# usage: run.sh DATA_DIR OUT_DIR [SCENARIO…]     (NYALA names the binary; scenarios: clients local prepared planning
#                                                 again beside neighbours quota memory soak; default: all but quota and soak; SOAK is how long it takes,
#                                                 ROUNDS how often each number of clients is measured, and TIMES how
#                                                 long, as options of `nyala bench`: --duration 6s)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
nyala=${NYALA:-nyala}
if [ $# -lt 2 ]; then
  sed -n '5,8p' "$0" | cut -c3- >&2
  exit 2
fi
data=$1 out=$2
shift 2
scenarios=("$@")
[ $# -gt 0 ] || scenarios=(clients local prepared planning again beside neighbours memory)
mkdir -p "$out"
postgres=127.0.0.1:5611 http=127.0.0.1:8611
url=postgres://$postgres/nyala
socket=$(mktemp -d) # for clients of the same machine
server=""

start() { # [NAME=VALUE…]: the server, with these in its environment
  env NYALA_SERVER__MAX_CONNECTIONS=1200 "$@" "$nyala" serve --data-dir "$data" \
    --postgres-listen "$postgres" --postgres-socket "$socket" --http-listen "$http" >"$out/server.log" 2>&1 &
  server=$!
  until curl -sf "http://$http/readyz" >/dev/null; do
    kill -0 "$server" 2>/dev/null || { cat "$out/server.log" >&2; exit 1; } # it could not start
    sleep 0.2
  done
}

stop() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  server=""
}
trap 'idle; stop; rm -rf -- "$socket"' EXIT

bench() { # NAME ARGUMENT…: a run of the mix, kept under a name
  local name=$1
  shift
  "$nyala" bench ssb --url "$url" --server-pid "$server" --json "$out/$name.json" --html "$out/$name.html" "$@" |
    tee "$out/$name.txt"
}

warm() { "$nyala" bench ssb --url "$url" --clients 16 --duration 5s --warmup 10s --ceiling 0s >/dev/null; }

sql() { "$nyala" sql --url "$url" -c "$1"; }

neighbours=()
busy() { # N: so many other programs compute without pause
  for _ in $(seq "$1"); do
    sh -c 'while :; do :; done' &
    neighbours+=($!)
  done
}

idle() {
  [ ${#neighbours[@]} -eq 0 ] || kill "${neighbours[@]}" 2>/dev/null || true
  neighbours=()
}

changes() { # cubes come, change and go without pause; what was done when is kept beside the run
  local n=0 statement ok
  : >"$out/soak-errors.log"
  while kill -0 "$server" 2>/dev/null; do
    n=$((n + 1))
    for statement in \
      "CREATE CUBE soak_$n AS SELECT sum(lo_revenue), count(*) FROM lineorder, dates
       WHERE lo_orderdate = d_datekey GROUP BY d_year, lo_discount" \
      "BUILD CUBE soak_$n" "ALTER CUBE soak_$n ADD MEASURE max(lo_quantity)" "BUILD CUBE soak_$n" \
      "DROP CUBE soak_$n"; do
      ok=1
      sql "$statement" >/dev/null 2>>"$out/soak-errors.log" || ok=0
      printf '%s\t%s\t%s\n' "$SECONDS" "$ok" "${statement%%[$'\n']*}" >>"$out/soak-changes.tsv"
    done
  done
}

forget_changes() { # a cube that was there when the changes ended, now or in a run that was stopped
  local cube
  "$nyala" sql --url "$url" --format csv -c "SELECT cube FROM system.cubes WHERE starts_with(cube, 'soak_')" | tail -n +2 |
    while read -r cube; do sql "DROP CUBE $cube" >/dev/null; done
}

for scenario in "${scenarios[@]}"; do
  echo "== $scenario"
  case $scenario in
    clients) # the mix with literals, result cache off
      start && warm
      # shellcheck disable=SC2086
      bench clients --clients 1,15,25,32,50,75,100,150,500,1000 --rounds "${ROUNDS:-5}" ${TIMES:---duration 6s}
      ;;
    local) # the same over the socket, without network
      start && warm
      # shellcheck disable=SC2086
      url="postgres://${socket//\//%2F}:${postgres##*:}/nyala" bench local --clients 1,15,25,32,50,75,100,150,500,1000 \
        --rounds "${ROUNDS:-5}" ${TIMES:---duration 6s}
      ;;
    prepared)
      start && warm
      bench prepared --mode prepared --clients 32,150 --duration 6s
      ;;
    planning) # what a ready plan costs, and what planning does
      start && warm
      bench ready --clients 1 --duration 5s --ceiling 0s
      sql "SELECT ready_plan, count(*), approx_percentile_cont(planning_us, 0.5) AS median_planning_us,
           approx_percentile_cont(running_us, 0.5) AS median_running_us
           FROM system.query_log WHERE answered_from IS NOT NULL GROUP BY ready_plan" | tee "$out/planning.txt"
      stop
      start NYALA_CACHE__PLANS_BYTES=0 && warm
      bench planned --clients 1 --duration 5s --ceiling 0s
      sql "SELECT ready_plan, count(*), approx_percentile_cont(planning_us, 0.5) AS median_planning_us
           FROM system.query_log WHERE answered_from IS NOT NULL GROUP BY ready_plan" | tee -a "$out/planning.txt"
      ;;
    again) # answers of before
      start && warm
      url="$url?options=-c%20nyala.result_cache%3Don" bench again --clients 32,150 --duration 6s
      ;;
    beside) # 50 dashboard clients, alone and beside an analyst; first some leave most of the machine idle, then none of it
      start && warm
      bench beside --clients 50 --rate 1000 --beside "$here/heavy.sql" --rounds "${ROUNDS:-5}" --duration 10s \
        --ceiling 0s
      bench beside-closed --clients 50 --beside "$here/heavy.sql" --rounds "${ROUNDS:-5}" --duration 10s --ceiling 0s
      ;;
    neighbours) # queries on tables, and dashboards, alone and beside two programs that compute without pause
      start && warm
      tables="$url?options=-c%20nyala.use_cubes%3Doff"
      url=$tables bench tables-quiet --clients 1 --duration 20s --ceiling 0s
      busy 2
      url=$tables bench tables-neighbours --clients 1 --duration 40s --ceiling 0s
      bench dashboards-neighbours --clients 50 --rate 1000 --duration 10s --ceiling 0s
      bench analyst-neighbours --clients 50 --rate 1000 --beside "$here/heavy.sql" --duration 10s --ceiling 0s
      idle
      bench dashboards-quiet --clients 50 --rate 1000 --duration 10s --ceiling 0s
      ;;
    quota) # the same within half a processor; needs a writable control group (version 1) of the processor
      group=/sys/fs/cgroup/cpu/nyala-bench
      mkdir -p "$group" && echo 50000 >"$group/cpu.cfs_quota_us"
      start && echo "$server" >"$group/cgroup.procs" && warm
      url="$url?options=-c%20nyala.use_cubes%3Doff" bench tables-quota --clients 1 --duration 40s --ceiling 0s
      bench dashboards-quota --clients 50 --rate 500 --duration 10s --ceiling 0s
      bench analyst-quota --clients 50 --rate 500 --beside "$here/heavy.sql" --duration 10s --ceiling 0s
      stop
      rmdir "$group"
      ;;
    memory) # 1 GiB for everything, and 150 clients beside four analysts
      start NYALA_QUERY__MEMORY_LIMIT_BYTES=$((1 << 30))
      bench memory --clients 150 --beside "$here/heavy.sql" --beside-clients 4 --duration 30s --ceiling 0s ||
        echo "some queries got an error: see $out/memory.html"
      kill -0 "$server" && echo "the server lives; peak resident memory: $(awk '/VmHWM/ {print $2, $3}' /proc/$server/status)"
      ;;
    soak) # 150 clients, while cubes are made, built, altered and dropped
      start && warm
      forget_changes
      printf 'at_seconds\tok\tstatement\n' >"$out/soak-changes.tsv"
      SECONDS=0
      changes &
      changing=$!
      bench soak --clients 150 --duration "${SOAK:-1h}" --ceiling 0s ||
        echo "some queries got an error: see $out/soak.html"
      kill "$changing" 2>/dev/null || true
      wait "$changing" 2>/dev/null || true
      forget_changes || true # the last one may still be built: then the next run does it
      python3 "$here/soak_graph.py" "$out/soak.json" "$out/soak-changes.tsv" >"$out/soak.svg"
      awk -F'\t' 'NR > 1 { all++; failed += !$2 } END { print "changes: " all + 0 ", errors of them: " failed + 0 }' \
        "$out/soak-changes.tsv"
      ;;
    *)
      echo "unknown scenario: $scenario" >&2
      exit 2
      ;;
  esac
  stop
done
