#!/bin/bash
# Runs the project in dbt/ on one server: dbt.sh HOST PORT [dbt program]. Prints what dbt says of each node, without times, then the rows of
# each relation: two servers that print the same have done the same. BEYOND=1 takes in models/beyond, which Nyala has not today.
cd "$(dirname "$0")/dbt" || exit 1
export DBT_HOST=$1 DBT_PORT=$2 PGOPTIONS='-c client_min_messages=warning'; dbt=${3:-dbt}; out=$(mktemp -d)
[ "$BEYOND" ] && skip=() || skip=(--exclude tag:beyond)
q() { psql -h "$DBT_HOST" -p "$DBT_PORT" -U nyala nyala -XqAt -c "$1"; }
run() {
  echo "== dbt $*"
  "$dbt" --no-use-colors --log-path "$out" "$@" --profiles-dir . --target-path "$out/target" 2>&1 |
    grep -E '^[0-9:]+ +([0-9]+ of [0-9]+ (OK|PASS|ERROR|FAIL|WARN|SKIP|NO-OP)|Done|.*[Ee]rror|  )|^(table|view|materialized|[a-z]+ [a-z]|[A-Z]{2}$)|^\|' |
    grep -vE 'compiled code at|See test failures' | sed -E 's/^[0-9:]+ +//; s/^[0-9]+ of [0-9]+ //; s/ in [0-9.]+s\]/]/; s/ \.{3,} / /' | sort
}
q 'DROP SCHEMA IF EXISTS dbt_shop CASCADE' ; q 'DROP SCHEMA IF EXISTS dbt_shop_dbt_test__audit CASCADE'; q 'DROP SCHEMA IF EXISTS dbt_shop_other CASCADE'
q 'CREATE ROLE shop_reader' 2>/dev/null
run seed; run run "${skip[@]}"; run run "${skip[@]}"; run test; run snapshot
q "UPDATE dbt_shop.customers SET name = 'Dee' WHERE id = 4; DELETE FROM dbt_shop.customers WHERE id = 2"
q "UPDATE dbt_shop.orders SET amount = 8, placed = '2024-05-01 00:00:00+00' WHERE id = 13; DELETE FROM dbt_shop.orders WHERE id = 10"
run snapshot; run snapshot; run run "${skip[@]}"; run run "${skip[@]}" --full-refresh; run docs generate; run source freshness
run seed --full-refresh; run build "${skip[@]}"; run show -s by_country; run run-operation tables_of --args '{schema: dbt_shop}'
"${PYTHON:-python3}" - "$out/target/catalog.json" <<'PY'
import json, sys
catalog = json.load(open(sys.argv[1]))
for kind in ("nodes", "sources"):
    for name, node in sorted(catalog[kind].items()):
        meta = node["metadata"]
        print("catalog", name, meta["type"], meta["comment"], meta["owner"], [(c["name"], c["type"], c["comment"]) for c in node["columns"].values()])
PY
for table in $(q "SELECT table_name FROM information_schema.tables WHERE table_schema = 'dbt_shop' UNION SELECT matviewname FROM pg_matviews WHERE schemaname = 'dbt_shop' ORDER BY 1"); do
  columns=$(q "SELECT string_agg(quote_ident(attname::text), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'dbt_shop.$table'::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('at', 'dbt_updated_at', 'dbt_valid_from', 'dbt_valid_to', 'dbt_scd_id')")
  echo "-- $table: $columns"; q "SET timezone = 'UTC'; SELECT $columns FROM dbt_shop.$table" | LC_ALL=C sort
done
