#!/usr/bin/env bash
# Copies the cuboids of cuboids.sql from Nyala into PostgreSQL, as tables of a schema that is named like their indexes:
#   plain    a primary key over the dimensions, in the cuboid's order
#   fitting  an index for each way in which the queries search them, as cuboids.sql says
#
# usage: postgres.sh NYALA_URL POSTGRES_URL [plain|fitting]     (NYALA names the binary; default: nyala, fitting)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
nyala=${NYALA:-nyala}
kind=${3:-fitting}
if [ $# -lt 2 ] || [ $# -gt 3 ] || [[ ! $kind =~ ^(plain|fitting)$ ]]; then
  sed -n '6p' "$0" | cut -c3- >&2
  exit 2
fi
source_url=$1 target_url=$2

run() { psql -X -q -v ON_ERROR_STOP=1 "$target_url" -c "SET search_path = $kind" -c "SET client_min_messages = warning" "$@"; }

# The type of a column by its name: measures are sums of 64 bits, years and the like whole numbers.
type_of() {
  case $1 in
    price_discount | revenue | profit | row_count) echo bigint ;;
    d_year | d_yearmonthnum | d_weeknuminyear | lo_discount | lo_quantity) echo integer ;;
    *) echo text ;;
  esac
}

# The first index decides the order of the rows, as a cuboid's dimensions do.
index() { # NAME INDEXES SELECT
  local name=$1 indexes=$2 select=$3 list number=0
  if [ "$kind" = plain ]; then
    run -c "ALTER TABLE $name ADD CONSTRAINT ${name}_1 PRIMARY KEY (${select##*GROUP BY })"
  else
    while IFS= read -r list; do
      number=$((number + 1))
      run -c "CREATE INDEX ${name}_$number ON $name ($list)"
    done < <(tr ';' '\n' <<<"$indexes")
  fi
  run -c "CLUSTER $name USING ${name}_1" -c "VACUUM (ANALYZE) $name"
}

load() { # NAME INDEXES SELECT
  local name=$1 indexes=$2 select=$3 file columns column
  file=$(mktemp)
  "$nyala" sql --url "$source_url" --format csv -c "$select" >"$file"
  columns=""
  for column in $(head -n 1 "$file" | tr ',' ' '); do
    columns+="${columns:+, }$column $(type_of "$column") NOT NULL"
  done
  run -c "DROP TABLE IF EXISTS $name" -c "CREATE TABLE $name ($columns)"
  run -c "\\copy $name FROM '$file' WITH (FORMAT csv, HEADER)"
  rm -f "$file"
  index "$name" "$indexes" "$select"
  echo "$kind.$name: $(run -At -c "SELECT count(*) FROM $name") rows"
}

psql -X -q -v ON_ERROR_STOP=1 "$target_url" -c "SET client_min_messages = warning" -c "CREATE SCHEMA IF NOT EXISTS $kind"
name="" indexes="" select=""
while IFS= read -r line; do
  case $line in
    "-- by_"*) name=${line#-- } indexes=${name#*: } name=${name%%:*} select="" ;;
    "--"*) ;;
    *";") load "$name" "$indexes" "$select ${line%;}" ;;
    *) select+=" $line" ;;
  esac
done <"$here/cuboids.sql"
