#!/usr/bin/env bash
# Copies cuboids from Nyala into PostgreSQL, as tables with the indexes that cuboids.sql names.
#
# usage: postgres.sh NYALA_URL POSTGRES_URL     (NYALA names the binary; default: nyala)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
nyala=${NYALA:-nyala}
if [ $# -ne 2 ]; then
  sed -n '4p' "$0" | cut -c3- >&2
  exit 2
fi
source_url=$1 target_url=$2

run() { psql -X -q -v ON_ERROR_STOP=1 "$target_url" "$@"; }

# The type of a column by its name: measures are sums of 64 bits, years and the like whole numbers.
type_of() {
  case $1 in
    price_discount | revenue | profit | row_count) echo bigint ;;
    d_year | d_yearmonthnum | d_weeknuminyear | lo_discount | lo_quantity) echo integer ;;
    *) echo text ;;
  esac
}

load() { # NAME INDEXES SELECT
  local name=$1 indexes=$2 select=$3 file columns column list number=0
  file=$(mktemp)
  "$nyala" sql --url "$source_url" --format csv -c "$select" >"$file"
  columns=""
  for column in $(head -n 1 "$file" | tr ',' ' '); do
    columns+="${columns:+, }$column $(type_of "$column") NOT NULL"
  done
  PGOPTIONS="-c client_min_messages=warning" run -c "DROP TABLE IF EXISTS $name" -c "CREATE TABLE $name ($columns)"
  run -c "\\copy $name FROM '$file' WITH (FORMAT csv, HEADER)"
  rm -f "$file"
  while IFS= read -r list; do
    number=$((number + 1))
    run -c "CREATE INDEX ${name}_$number ON $name ($list)"
  done < <(tr ';' '\n' <<<"$indexes")
  # The index that is asked most decides the order of the rows, as a cuboid's dimensions do.
  run -c "CLUSTER $name USING ${name}_1" -c "VACUUM (ANALYZE) $name"
  echo "$name: $(run -At -c "SELECT count(*) FROM $name") rows"
}

name="" indexes="" select=""
while IFS= read -r line; do
  case $line in
    "-- by_"*) name=${line#-- } indexes=${name#*: } name=${name%%:*} select="" ;;
    "--"*) ;;
    *";") load "$name" "$indexes" "$select ${line%;}" ;;
    *) select+=" $line" ;;
  esac
done <"$here/cuboids.sql"
