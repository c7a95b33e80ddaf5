#!/usr/bin/env bash
# An object store on this machine that is as far away as a real one: S3 behind latency and bandwidth, with counters.
#
#     lab.sh up|down|status|costs FOLDER
#
# FOLDER keeps the programs (bin/), the objects (store/, a folder in it is a bucket), logs and process ids.
#
#     S3_PORT       counter: delays each answer by LATENCY_MS, sends RATE_KB_S kilobytes a second on each connection, counts
#                   requests and bytes, and makes faults on demand (counter/main.go); ask it at CONTROL_PORT
#     STORE_PORT    versitygw: S3 over the folder store/
#
# With TOXIPROXY=1 toxiproxy delays instead, at S3_PORT, before the counter at COUNTER_PORT; it costs three times the processor time.
#
# `up` installs what is missing with Go's module proxy (some minutes the first time) and gives back when all answer; `down` stops
# them; `costs` measures what ranges of an object cost. Access key `lab`, secret key `lab-secret`, bucket `lab`, region us-east-1.
set -eu
VERSITYGW=v1.8.0
TOXIPROXY_VERSION=v2.12.0
TOXIPROXY="${TOXIPROXY:-0}"
STORE_PORT="${STORE_PORT:-17070}"
S3_PORT="${S3_PORT:-17071}"
COUNTER_PORT="${COUNTER_PORT:-17072}"
CONTROL_PORT="${CONTROL_PORT:-17073}"
TOXIPROXY_PORT="${TOXIPROXY_PORT:-18474}"
LATENCY_MS="${LATENCY_MS:-30}"
RATE_KB_S="${RATE_KB_S:-51200}"

[ $# -eq 2 ] || { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
here="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$2/bin" "$2/store/lab" "$2/run"
folder="$(realpath "$2")"
export PATH="$PATH:/usr/local/go/bin"

# install NAME PACKAGE BINARY: builds a program once; the binary of `go install` may have another name.
install() {
  [ -x "$folder/bin/$1" ] && return
  echo "installing $1"
  GOBIN="$folder/bin/new" go install "$2"
  mv "$folder/bin/new/$3" "$folder/bin/$1"
}

# start NAME PORT COMMAND…: starts a program and waits until its port answers.
start() {
  local name="$1" port="$2"
  shift 2
  running "$name" && return
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "port $port is taken by another program: stop it, or set another port" >&2
    exit 1
  fi
  # In a session of its own, so that neither Ctrl-C nor the end of the terminal stops it.
  setsid "$@" >"$folder/run/$name.log" 2>&1 </dev/null &
  echo $! >"$folder/run/$name.pid"
  for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    kill -0 $! 2>/dev/null || break
    sleep 0.1
  done
  echo "$name does not answer on port $port:" >&2
  tail -5 "$folder/run/$name.log" >&2
  exit 1
}

# running NAME: whether its process is there, and is still that program (its file may have been replaced).
running() {
  local pid exe
  pid="$(cat "$folder/run/$1.pid" 2>/dev/null)" && exe="$(readlink "/proc/$pid/exe")" && [ "${exe% (deleted)}" = "$folder/bin/$1" ]
}

toxics() {
  local cli=("$folder/bin/toxiproxy-cli" -h "http://127.0.0.1:$TOXIPROXY_PORT")
  "${cli[@]}" delete s3 >/dev/null 2>&1 || true
  "${cli[@]}" create -l "127.0.0.1:$S3_PORT" -u "127.0.0.1:$COUNTER_PORT" s3 >/dev/null
  # Bandwidth first: it holds back what it reads, whereas latency reads ahead 1,024 chunks that a client may never want.
  "${cli[@]}" toxic add -t bandwidth -n bandwidth -a "rate=$RATE_KB_S" s3 >/dev/null
  "${cli[@]}" toxic add -t latency -n latency -a "latency=$LATENCY_MS" s3 >/dev/null
}

up() {
  install versitygw "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW" versitygw
  running counter || (cd "$here/counter" && go build -o "$folder/bin/counter" .)
  export LOG_LEVEL=error ROOT_ACCESS_KEY=lab ROOT_SECRET_KEY=lab-secret
  start versitygw "$STORE_PORT" "$folder/bin/versitygw" --port "127.0.0.1:$STORE_PORT" --quiet --keep-alive \
    posix --io-buffer-size 131072 "$folder/store"
  local counter=("$folder/bin/counter" -store "127.0.0.1:$STORE_PORT" -control "127.0.0.1:$CONTROL_PORT")
  if [ "$TOXIPROXY" = 1 ]; then
    install toxiproxy "github.com/Shopify/toxiproxy/v2/cmd/server@$TOXIPROXY_VERSION" server
    install toxiproxy-cli "github.com/Shopify/toxiproxy/v2/cmd/cli@$TOXIPROXY_VERSION" cli
    start counter "$COUNTER_PORT" "${counter[@]}" -listen "127.0.0.1:$COUNTER_PORT"
    start toxiproxy "$TOXIPROXY_PORT" "$folder/bin/toxiproxy" -host 127.0.0.1 -port "$TOXIPROXY_PORT"
    toxics
  else
    start counter "$S3_PORT" "${counter[@]}" -listen "127.0.0.1:$S3_PORT" -latency "${LATENCY_MS}ms" -rate $((RATE_KB_S * 1024))
  fi
  echo "S3 at http://127.0.0.1:$S3_PORT, objects in $folder/store/lab, counters at http://127.0.0.1:$CONTROL_PORT/_counters"
}

down() {
  for name in toxiproxy counter versitygw; do
    if running "$name"; then
      pid="$(cat "$folder/run/$name.pid")"
      kill "$pid"
      while [ -d "/proc/$pid" ]; do sleep 0.05; done
    fi
    rm -f "$folder/run/$name.pid"
  done
}

status() {
  local failed=0
  for name in versitygw counter toxiproxy; do
    if running "$name"; then
      echo "$name runs, process $(cat "$folder/run/$name.pid")"
    elif [ "$name" != toxiproxy ] || [ "$TOXIPROXY" = 1 ]; then
      echo "$name does not run"
      failed=1
    fi
  done
  return $failed
}

# Milliseconds of ranges of one object over a connection that is open, median of 15, at the proxy and at the store itself.
costs() {
  local object="$folder/store/lab/costs.bin" size
  head -c $((16 << 20)) /dev/urandom >"$object"
  echo "| range | ms through the lab | ms at the store |"
  echo "|---|---:|---:|"
  for size in 65536 1048576 8388608; do
    echo "| $((size / 1024)) KiB | $(range "$S3_PORT" "$size") | $(range "$STORE_PORT" "$size") |"
  done
  rm "$object"
}

# range PORT BYTES: the first of the requests opens the connection and is left out.
range() {
  local url="http://127.0.0.1:$1/lab/costs.bin"
  local times=(-s -w '%{time_total} %{size_download}\n' --aws-sigv4 aws:amz:us-east-1:s3 -u lab:lab-secret -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" -r "0-$(($2 - 1))")
  local urls=()
  for _ in $(seq 16); do urls+=("$url" -o /dev/null); done
  curl "${times[@]}" "${urls[@]}" | awk -v bytes="$2" '$2 != bytes { exit 1 } NR > 1 { printf "%.1f\n", $1 * 1000 }' | sort -n | sed -n 8p
}

case "$1" in
  up | down | status | costs) "$1" ;;
  *) sed -n '4s/^# *//p' "$0" >&2; exit 2 ;;
esac
