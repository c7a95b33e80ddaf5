#!/usr/bin/env bash
# psql against a server that has the Star Schema Benchmark tables in schema `public`.
# Where the server is comes from PGHOST, PGPORT, PGUSER and PGDATABASE. Prints one line for each check
# and exits with 1 if any failed.
set -u
export PGHOST="${PGHOST:-127.0.0.1}" PGPORT="${PGPORT:-5433}" PGUSER="${PGUSER:-compat}"
export PGDATABASE="${PGDATABASE:-nyala}" PGCONNECT_TIMEOUT=10
failed=0
total=0

# check NAME PATTERN SQL...: runs psql with each SQL as a -c, wants success and PATTERN in the output.
check() {
  local name="$1" pattern="$2" commands=() output
  shift 2
  for sql in "$@"; do commands+=(-c "$sql"); done
  total=$((total + 1))
  if output=$(psql -X -v ON_ERROR_STOP=1 "${commands[@]}" 2>&1) && grep -Eq -- "$pattern" <<<"$output"; then
    echo "ok    $name"
  else
    failed=$((failed + 1))
    echo "FAIL  $name"
    echo "$output" | head -20
  fi
}

# refuses NAME PATTERN SQL: wants failure and PATTERN in the output.
refuses() {
  local name="$1" pattern="$2" sql="$3" output
  total=$((total + 1))
  if ! output=$(psql -X -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "$sql" 2>&1) && grep -Eq -- "$pattern" <<<"$output"; then
    echo "ok    $name"
  else
    failed=$((failed + 1))
    echo "FAIL  $name"
    echo "$output" | head -20
  fi
}

check 'a query'                   '\(1 row\)'            'SELECT 1 AS one'
check 'several statements'        'second'               "SELECT 'first'; SELECT 'second'"
check 'an aggregation'            'ASIA'                 'SELECT c_region, count(*) FROM customer GROUP BY c_region ORDER BY 1'
check 'numbers look as they do'   '^ *1 \| +0.5 \| +1e\+20 \| +Infinity$' \
  "SELECT 1.0::double precision, 0.5::double precision, 1e20::double precision, 'inf'::double precision"
check '\d'                        'lineorder'            '\d'
check '\dt'                       'public.*lineorder.*table' '\dt'
check '\dt with a pattern'        'customer'             '\dt c*'
check '\d table'                  'd_year'               '\d dates'
check '\d+ table'                 'd_year'               '\d+ dates'
check '\l'                        'nyala'                '\l'
check '\dn'                       'public'               '\dn'
check '\dv'                       'Did not find any|List' '\dv'
check '\di'                       'Did not find any|List' '\di'
check '\df'                       'List|rows'            '\df no_such_function'
check '\du'                       'Role name|List'       '\du'
check '\conninfo'                 'You are connected'    '\conninfo'
check 'server_version'            '15.0 \(Nyala'         'SHOW server_version'
check 'version()'                 'PostgreSQL 15.0'      'SELECT version()'
check 'SHOW ALL'                  'client_encoding'      'SHOW ALL'
check 'a transaction'             'COMMIT'               'BEGIN' 'SELECT 1' 'COMMIT'
check 'a cursor'                  '\(3 rows\)'           \
  'BEGIN' 'DECLARE c CURSOR FOR SELECT d_datekey FROM dates ORDER BY 1' 'FETCH 3 FROM c' 'CLOSE c' 'COMMIT'
check 'FETCH_COUNT'               '5'                    '\set FETCH_COUNT 2' 'SELECT * FROM (VALUES (1),(2),(3),(4),(5)) AS t(n)'
check 'a prepared statement'      '\(1 row\)'            \
  'PREPARE p (int) AS SELECT count(*) FROM dates WHERE d_year = $1' 'EXECUTE p (1995)' 'DEALLOCATE p'
check 'SET and SHOW'              'off'                  'SET jit = off' 'SHOW jit'
check 'a setting of the engine'   'false|off'            'SET nyala.use_cubes = off' 'SHOW nyala.use_cubes'
check 'SHOW CUBES'                'row'                  'SHOW CUBES'
check 'EXPLAIN'                   'plan'                 'EXPLAIN SELECT count(*) FROM dates'
refuses 'an unknown table'        '42P01'                'SELECT * FROM no_such_table'
refuses 'an unknown column'       '42703.*'              'SELECT no_such_column FROM dates'
refuses 'bad syntax'              '42601'                'SELEC 1'
refuses 'a parameter of nobody'   '42P02'                'SELECT $1::int'
refuses 'a setting of nobody'     '42704'                'SET no_such_setting = 1'

# Ctrl-C: psql turns SIGINT into a cancel request.
total=$((total + 1))
start=$(date +%s%N)
timeout -s INT 1 psql -X -v VERBOSITY=verbose \
  -c 'SELECT count(*) FROM generate_series(1, 1000000000000) AS t(n) WHERE n % 7 = 8' \
  >/tmp/psql-cancel.$$ 2>&1
took=$((($(date +%s%N) - start) / 1000000))
if grep -q 57014 /tmp/psql-cancel.$$ && [ "$took" -lt 3000 ]; then
  echo "ok    cancel within 2 s"
else
  failed=$((failed + 1))
  echo "FAIL  cancel within 2 s: took $took ms"
  cat /tmp/psql-cancel.$$
fi
rm -f /tmp/psql-cancel.$$

echo "$((total - failed)) of $total checks passed"
[ "$failed" -eq 0 ]
