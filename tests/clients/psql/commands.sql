-- psql's own commands: what they list, how scripts and COPY work. Each part after a line `--- name` is a psql of its own.
--- setup
DROP VIEW IF EXISTS drv_v;
DROP TABLE IF EXISTS drv_t;
DROP TABLE IF EXISTS drv_n;
DROP TABLE IF EXISTS drv_c;
CREATE TABLE drv_t (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL DEFAULT 'x', amount NUMERIC(10,2) DEFAULT 1.5, at TIMESTAMP, tz TIMESTAMPTZ, d DATE, ok BOOLEAN DEFAULT false, f DOUBLE PRECISION, b BYTEA, u UUID, s SMALLINT, l BIGINT, r REAL, t TIME);
CREATE TABLE drv_n (a INT, b TEXT);
CREATE TABLE drv_c (a INT, b TEXT, PRIMARY KEY (b, a));
CREATE VIEW drv_v AS SELECT id, name FROM drv_t WHERE id > 5;
INSERT INTO drv_t (id, name, amount, at, d) VALUES (1, 'one', 1.25, '2024-01-02 03:04:05', '2024-01-02'), (2, 'two', 2.5, NULL, NULL);
--- d table
\d drv_t
--- d+ table
\d+ drv_t
--- d table without a key
\d drv_n
--- d+ of two keys
\d+ drv_c
--- d view
\d drv_v
--- d+ view
\d+ drv_v
--- d index
\d drv_t_pkey
--- d+ index
\d+ drv_t_pkey
--- d pattern
\d drv_*
--- d qualified
\d public.drv_n
--- d missing
\d nope
--- d system table
\d pg_catalog.pg_class
--- dt+
\pset format unaligned
\dt drv*
--- dt S
\dtS pg_am
--- dv
\dv drv*
--- dv+
\pset format unaligned
\dv+ drv_v
--- di
\di drv*
--- dm ds dE
\dm
\ds
\dE
--- dti
\dti drv_t*
--- dn
\dn public
--- dn+
\dn+ nope
--- df
\df upper
--- df+
\df nope
\dfa nope
\df pg_catalog.lower
--- da
\da count
--- do
\do nope
--- du
\du nope
--- dg
\dg nope
--- dp
\dp drv_t
\z drv_n
--- dT
\dT int4
\dT+ nope
\dT integer
--- dD dC dc
\dD
\dC nope
\dc nope
--- dO
\dO nope
--- l
\l nope
--- l name
\pset format unaligned
\pset tuples_only
\l nyala
--- db
\db pg_default
--- dx
\dx nope
--- ddp
\ddp
--- drds
\drds
--- dF
\dF simple
\dFd nope
\dFp nope
\dFt nope
--- dRp dRs dy
\dRp
\dRs
\dy
--- dl
\dl
\lo_list
--- dconfig
\dconfig work_mem
--- dP
\dP
--- dX
\dX
--- dAc
\dAc btree nope
\dAf btree nope
\dAo btree nope
\dAp btree nope
--- sf
\sf nope
--- sv
\sv nope
--- sv of a view
\sv drv_v
--- x
\x
SELECT 1 AS a, 'b' AS b;
\x auto
SELECT 1 AS a;
--- G expanded
SELECT 1 AS a, 'b' AS b \gx
--- gset
SELECT 1 AS a, 'b' AS b, NULL AS c \gset p_
\echo :p_a :p_b
SELECT :p_a AS x, :'p_b' AS y, :"p_b" FROM (SELECT 2 AS b) AS q;
--- gdesc
SELECT id, name, amount, at, tz, d, ok, f, b, u, s, l, r, t FROM drv_t \gdesc
SELECT 1 AS a, 'x' AS b, 1.5 AS c, now() AS d, ARRAY[1] AS e, NULL AS f, true AS g, count(*) AS h, sum(1) AS i, avg(1) AS j, interval '1 day' AS k, '1'::bytea AS l, 1::smallint AS m, 1.5::real AS n, current_date AS o, sum(1::bigint) AS p, length('x') AS q, '\x01'::bytea AS r FROM drv_t \gdesc
SELECT id, row_number() OVER (), sum(id), sum(amount), avg(amount), min(d), max(name), extract(year FROM d), date_trunc('day', at), d - d, d + 1, at - at, round(amount, 1), amount * 2, id / 2, id + 1::bigint, upper(name), name || 'x', coalesce(id, 0), CASE WHEN ok THEN 1 ELSE 2 END, count(*) FILTER (WHERE ok), array_agg(id), string_agg(name, ','), stddev(id), f * 2, s + s, r + r FROM drv_t GROUP BY id, d, at, amount, name, ok, f, s, r \gdesc
--- gexec
SELECT format('SELECT %s AS v', n) FROM generate_series(1, 2) AS g(n) \gexec
--- crosstabview
SELECT a, b, c FROM (VALUES (1, 'x', 10), (1, 'y', 20), (2, 'x', 30)) AS v(a, b, c) \crosstabview
--- errverbose
SELECT nope FROM drv_t;
\errverbose
--- verbosity
\set VERBOSITY terse
SELECT nope FROM drv_t;
\set VERBOSITY sqlstate
SELECT nope FROM drv_t;
--- on error stop
\set ON_ERROR_STOP 1
SELECT 1/0;
SELECT 'never';
--- on error rollback
\set ON_ERROR_ROLLBACK on
BEGIN;
SELECT 1/0;
SELECT 'still alive' AS a;
COMMIT;
--- autocommit off
\set AUTOCOMMIT off
SELECT 1 AS a;
\echo :ERROR :ROW_COUNT :SQLSTATE
ROLLBACK;
SELECT 1/0;
\echo :ERROR :ROW_COUNT :SQLSTATE :LAST_ERROR_SQLSTATE
ROLLBACK;
--- variables
\set v 5
\set n 'it''s'
SELECT :v + 1 AS a, :'n' AS b;
\unset v
\if :{?v}
\echo yes
\else
\echo no
\endif
\echo :SERVER_VERSION_NUM :ENCODING :DBNAME :USER
--- prompt status
\echo :SERVER_VERSION_NAME
--- conninfo
\encoding
\encoding SQL_ASCII
SHOW client_encoding;
\encoding UTF8
--- fetch count
\set FETCH_COUNT 3
SELECT n FROM generate_series(1, 7) AS g(n);
--- pset
\pset null '(null)'
\pset border 2
SELECT NULL AS a, 1 AS b;
\pset format csv
SELECT 'a,b' AS a, NULL AS b;
\pset format html
SELECT 1 AS a;
\a
\t
SELECT 1 AS a, 'x' AS b;
\f ';'
SELECT 1 AS a, 'x' AS b;
--- alignment
SELECT 1 AS i, 1.5 AS n, 'x' AS t, true AS b, now()::date > '2000-01-01' AS c, NULL AS nothing, 1.5::float8 AS f, ARRAY[1, 2] AS arr, interval '1 day' AS iv;
--- copy out
COPY drv_t (id, name, amount, at, d, ok) TO STDOUT;
COPY drv_t (id, name, amount, at, d, ok) TO STDOUT WITH CSV HEADER;
COPY drv_t (id, name, amount, at, d, ok) TO STDOUT (FORMAT csv, HEADER true, DELIMITER ';', NULL 'nil', QUOTE '''', FORCE_QUOTE (name));
COPY (SELECT id, name FROM drv_t ORDER BY id) TO STDOUT (FORMAT csv, FORCE_QUOTE *);
COPY (SELECT id, name FROM drv_t ORDER BY id) TO STDOUT DELIMITER '|' NULL '-';
COPY (SELECT id, name FROM drv_t ORDER BY id) TO STDOUT CSV DELIMITER E'\t';
COPY (SELECT E'a\tb\nc\\d' AS x, '' AS y, NULL AS z) TO STDOUT;
COPY (SELECT E'a,"b"\nc' AS x, '' AS y, NULL AS z) TO STDOUT CSV;
COPY (SELECT 1 AS a) TO STDOUT (FORMAT text, HEADER);
COPY drv_t TO STDOUT (FORMAT soup);
COPY nope TO STDOUT;
COPY drv_v TO STDOUT;
COPY (VALUES (1, 'x')) TO STDOUT;
COPY (WITH w AS (SELECT 1) SELECT * FROM w) TO STDOUT;
COPY (SELECT 1) TO STDOUT ENCODING 'UTF8';
--- copy in text
COPY drv_n FROM STDIN;
1	a
2	\N
3	tab\there\nline
\.
SELECT * FROM drv_n ORDER BY a;
TRUNCATE drv_n;
--- copy in csv
COPY drv_n FROM STDIN WITH (FORMAT csv, HEADER);
a,b
1,"x ""y"""
2,
3,""
4,"two
lines"
\.
SELECT a, b, b IS NULL AS n FROM drv_n ORDER BY a;
TRUNCATE drv_n;
--- copy in with options
COPY drv_n (b, a) FROM STDIN (DELIMITER '|', NULL 'nil');
x|1
nil|2
\.
COPY drv_n FROM STDIN CSV QUOTE '''' ESCAPE '\' NULL '-';
3,'it\'s'
4,-
\.
COPY drv_n FROM STDIN (FORMAT csv, FORCE_NOT_NULL (b), HEADER match);
a,b
5,
\.
COPY drv_n FROM STDIN (FORMAT csv, FORCE_NULL (b));
6,""
\.
SELECT a, b, b IS NULL AS n FROM drv_n ORDER BY a;
TRUNCATE drv_n;
--- copy in with where
COPY drv_n FROM STDIN WHERE a > 1;
1	a
2	b
\.
SELECT * FROM drv_n ORDER BY a;
TRUNCATE drv_n;
--- copy in errors
COPY drv_n FROM STDIN;
1
\.
COPY drv_n FROM STDIN;
1	a	extra
\.
COPY drv_n FROM STDIN;
x	a
\.
COPY drv_n FROM STDIN CSV;
1,"open
\.
COPY drv_n (a, nope) FROM STDIN;
COPY drv_n FROM STDIN (FORMAT csv, HEADER match);
a,c
1,x
\.
COPY drv_v FROM STDIN;
COPY drv_n FROM '/nonexistent/file';
SELECT count(*) FROM drv_n;
--- backslash copy
\copy drv_n FROM PROGRAM 'printf "1,a\n2,b\n"' CSV
\copy (SELECT * FROM drv_n ORDER BY a) TO STDOUT CSV HEADER
\copy drv_n TO PROGRAM 'sort' DELIMITER '|'
\copy drv_n (a) TO STDOUT
\copy nope FROM STDIN
TRUNCATE drv_n;
--- include and echo
\qecho hello
\echo -n part
\echo
\! true
\cd /tmp
SELECT 1 AS a\; SELECT 2 AS b;
--- timing off
\timing on
\timing off
SELECT 1 AS a;
--- help
\h nope
\? variables \g /dev/null
--- password
\password nope
--- notices
DROP TABLE IF EXISTS nope;
DROP VIEW IF EXISTS nope;
DROP SCHEMA IF EXISTS nope;
CREATE SCHEMA IF NOT EXISTS public;
CREATE TABLE IF NOT EXISTS drv_n (a INT);
SET client_min_messages = warning;
DROP TABLE IF EXISTS nope;
COMMIT;
RESET client_min_messages;
--- error fields
\set VERBOSITY verbose
INSERT INTO drv_t (id, name) VALUES (3, NULL);
INSERT INTO drv_t (id, s) VALUES (3, 99999);
INSERT INTO drv_t (id, name) VALUES (3, 'a text of more than twenty characters');
SELECT * FROM nope;
--- caret
SELECT id, nope FROM drv_t;
SELECT id FROM drv_t WHERE nope(id) = 1;
SELECT 1 +;
SELECT 'x'::int;
SELECT id FROM drv_t WHERE id = 'abc';
INSERT INTO drv_t (nope) VALUES (1);
SELECT é, nope FROM (SELECT 1 AS é) AS q;
SELECT * FROM drv_t JOIN nope ON true;
SELECT d.id FROM drv_t;
SELECT drv_t.nope FROM drv_t;
SELECT id FROM drv_t GROUP BY name;
SELECT id FROM drv_t ORDER BY 5;
--- dt of schemas
CREATE SCHEMA drv_s;
CREATE TABLE drv_s.inner_t (a INT PRIMARY KEY);
\dt drv_s.*
\d drv_s.inner_t
SET search_path = drv_s, public;
\dt inner*
SELECT count(*) FROM inner_t;
SHOW search_path;
DROP TABLE drv_s.inner_t;
DROP SCHEMA drv_s;
