#!/usr/bin/env bash
# Copies the cuboids of cuboids.sql from Nyala into PostgreSQL, as tables of a schema that is named like their indexes:
#   plain    a unique index over the dimensions, in the cuboid's order
#   columns  an index for each dimension
#   fitting  an index for each way in which the queries search them, as cuboids.sql says
#
# usage: postgres.sh NYALA_URL POSTGRES_URL [plain|columns|fitting]     (NYALA names the binary; default: nyala, fitting)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
nyala=${NYALA:-nyala}
kind=${3:-fitting}
if [ $# -lt 2 ] || [ $# -gt 3 ] || [[ ! $kind =~ ^(plain|columns|fitting)$ ]]; then
  sed -n '7p' "$0" | cut -c3- >&2
  exit 2
fi
source_url=$1 target_url=$2
file=$(mktemp) # what is copied
trap 'rm -f -- "$file"' EXIT

export PGOPTIONS="-c client_min_messages=warning -c search_path=$kind"
run() { psql -X -q -v ON_ERROR_STOP=1 "$target_url" "$@"; }

# The type of a column by its name: measures are sums of 64 bits, years and the like whole numbers.
type_of() {
  case $1 in
    price_discount | revenue | profit | row_count) echo bigint ;;
    d_year | d_yearmonthnum | d_weeknuminyear | lo_discount | lo_quantity) echo integer ;;
    *) echo text ;;
  esac
}

lists() { # INDEXES SELECT: the columns of each index, on lines of their own
  local dimensions=${2##*GROUP BY }
  case $kind in
    plain) echo "$dimensions" ;;
    columns) tr ',' '\n' <<<"$dimensions" ;;
    fitting) tr ';' '\n' <<<"$1" ;;
  esac
}

# Rows lie in the order of the first index, as a cuboid's lie in that of its dimensions; where there is one for each
# column, in the order that fits best.
index() { # NAME INDEXES SELECT
  local name=$1 order list number=0 unique=""
  order=${2%%;*}
  [ "$kind" != plain ] || { unique=UNIQUE && order=${3##*GROUP BY }; }
  run -c "CREATE INDEX ordered ON $name ($order)" -c "CLUSTER $name USING ordered" -c "DROP INDEX ordered"
  while IFS= read -r list; do
    number=$((number + 1))
    run -c "CREATE $unique INDEX ${name}_$number ON $name ($list)"
  done < <(lists "$2" "$3")
  run -c "VACUUM (ANALYZE) $name"
}

load() { # NAME INDEXES SELECT
  local name=$1 indexes=$2 select=$3 columns column
  "$nyala" sql --url "$source_url" --format csv -c "$select" >"$file"
  columns=""
  for column in $(head -n 1 "$file" | tr ',' ' '); do
    columns+="${columns:+, }$column $(type_of "$column") NOT NULL"
  done
  run -c "DROP TABLE IF EXISTS $name" -c "CREATE TABLE $name ($columns)"
  run -c "\\copy $name FROM '$file' WITH (FORMAT csv, HEADER)"
  index "$name" "$indexes" "$select"
  echo "$kind.$name: $(run -At -c "SELECT count(*) FROM $name") rows"
}

run -c "CREATE SCHEMA IF NOT EXISTS $kind"
name="" indexes="" select=""
while IFS= read -r line; do
  case $line in
    "-- by_"*) name=${line#-- } indexes=${name#*: } name=${name%%:*} select="" ;;
    "--"*) ;;
    *";") load "$name" "$indexes" "$select ${line%;}" ;;
    *) select+=" $line" ;;
  esac
done <"$here/cuboids.sql"
