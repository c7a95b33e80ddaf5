-- Statements of sessions, cursors and transactions, and functions that drivers call. Each part after a line `--- name` is a psql of its own.
--- setup
DROP VIEW IF EXISTS drv_v;
DROP TABLE IF EXISTS drv_t;
DROP TABLE IF EXISTS drv_n;
CREATE TABLE drv_t (id INT PRIMARY KEY, name TEXT, amount NUMERIC(10,2), at TIMESTAMP);
INSERT INTO drv_t SELECT n, 'n' || n, n * 1.5, TIMESTAMP '2024-01-01' + n * INTERVAL '1 day' FROM generate_series(1, 10) AS g(n);
CREATE VIEW drv_v AS SELECT id, name FROM drv_t WHERE id > 5;
CREATE TABLE drv_n (a INT, b TEXT DEFAULT 'x');
--- fetch forms
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM drv_t ORDER BY id;
FETCH c;
FETCH NEXT FROM c;
FETCH 2 FROM c;
FETCH FORWARD c;
FETCH FORWARD 2 IN c;
FETCH ALL c;
FETCH 1 FROM c;
CLOSE c;
COMMIT;
--- move
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM drv_t ORDER BY id;
MOVE 3 FROM c;
FETCH c;
MOVE c;
MOVE NEXT FROM c;
FETCH c;
MOVE FORWARD ALL IN c;
FETCH c;
COMMIT;
--- move on no scroll backward
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id FROM drv_t ORDER BY id;
FETCH 3 FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id FROM drv_t ORDER BY id;
FETCH 3 FROM c;
MOVE PRIOR FROM c;
ROLLBACK;
--- scroll cursor
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM drv_t ORDER BY id;
FETCH 3 FROM c;
FETCH PRIOR FROM c;
FETCH BACKWARD 5 FROM c;
FETCH ABSOLUTE 4 FROM c;
FETCH RELATIVE 2 FROM c;
FETCH RELATIVE -1 FROM c;
FETCH FIRST FROM c;
FETCH LAST FROM c;
FETCH BACKWARD ALL FROM c;
FETCH ABSOLUTE -2 FROM c;
MOVE ABSOLUTE 0 FROM c;
FETCH 0 FROM c;
FETCH NEXT FROM c;
FETCH RELATIVE 0 FROM c;
COMMIT;
--- absolute on a plain cursor
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM drv_t ORDER BY id;
FETCH ABSOLUTE 3 FROM c;
FETCH -2 FROM c;
COMMIT;
--- cursor with hold
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM drv_t ORDER BY id;
FETCH 2 FROM h;
COMMIT;
FETCH 2 FROM h;
SELECT name, is_holdable, is_scrollable, is_binary FROM pg_cursors ORDER BY name;
CLOSE h;
FETCH 1 FROM h;
--- cursor with hold without a block
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM drv_t ORDER BY id;
FETCH 2 FROM h;
CLOSE ALL;
FETCH 1 FROM h;
--- hold is dropped by a rollback
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM drv_t ORDER BY id;
ROLLBACK;
FETCH 1 FROM h;
--- cursor without a block
DECLARE c CURSOR FOR SELECT 1;
FETCH c;
--- cursor ends with its block
BEGIN;
DECLARE c CURSOR FOR SELECT 1;
COMMIT;
FETCH c;
--- cursor of the same name
BEGIN;
DECLARE c CURSOR FOR SELECT 1;
DECLARE c CURSOR FOR SELECT 2;
ROLLBACK;
--- cursor unknown
CLOSE nothere;
MOVE nothere;
--- insensitive and binary cursors
BEGIN;
DECLARE c INSENSITIVE CURSOR WITHOUT HOLD FOR SELECT id FROM drv_t ORDER BY id;
FETCH 1 FROM c;
DECLARE "Big Name" ASENSITIVE SCROLL CURSOR FOR SELECT id FROM drv_t ORDER BY id;
FETCH 1 FROM "Big Name";
CLOSE "Big Name";
COMMIT;
--- cursor over values and with
BEGIN;
DECLARE c CURSOR FOR VALUES (1, 'a'), (2, 'b');
FETCH ALL FROM c;
DECLARE d CURSOR FOR WITH x AS (SELECT 1 AS one) SELECT * FROM x;
FETCH ALL FROM d;
COMMIT;
--- discard
PREPARE p AS SELECT 1;
SET work_mem = '8MB';
DISCARD ALL;
EXECUTE p;
SHOW work_mem;
DISCARD PLANS;
DISCARD SEQUENCES;
DISCARD TEMP;
DISCARD TEMPORARY;
--- discard all in a block
BEGIN;
DISCARD ALL;
ROLLBACK;
--- discard all takes temporary tables
CREATE TEMP TABLE drv_tmp (a INT);
INSERT INTO drv_tmp VALUES (1);
SELECT * FROM drv_tmp;
DISCARD ALL;
SELECT * FROM drv_tmp;
--- reset
SET DateStyle = 'SQL, DMY';
SHOW datestyle;
RESET datestyle;
SHOW datestyle;
SET search_path = pg_catalog;
RESET ALL;
SHOW search_path;
RESET no_such_setting;
SET SESSION statement_timeout = '5s';
SHOW statement_timeout;
SET statement_timeout TO DEFAULT;
SHOW statement_timeout;
--- set local
SET LOCAL work_mem = '9MB';
SHOW work_mem;
BEGIN;
SET LOCAL work_mem = '9MB';
SHOW work_mem;
COMMIT;
SHOW work_mem;
BEGIN;
SET work_mem = '10MB';
ROLLBACK;
SHOW work_mem;
BEGIN;
SET work_mem = '11MB';
COMMIT;
SHOW work_mem;
--- set local and savepoints
BEGIN;
SET application_name = 'a';
SAVEPOINT s;
SET application_name = 'b';
SHOW application_name;
ROLLBACK TO s;
SHOW application_name;
ROLLBACK;
--- set forms
SET application_name TO 'x';
SHOW application_name;
SET application_name = DEFAULT;
SHOW application_name;
SET TIME ZONE 'Europe/Berlin';
SHOW TIME ZONE;
SET TIME ZONE LOCAL;
SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE;
SET TIME ZONE 2;
SET NAMES 'UTF8';
SHOW client_encoding;
SET CLIENT_ENCODING TO 'LATIN1';
SHOW client_encoding;
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE;
SHOW default_transaction_isolation;
SET SESSION AUTHORIZATION DEFAULT;
RESET SESSION AUTHORIZATION;
SET ROLE NONE;
RESET ROLE;
SET search_path TO public, pg_catalog;
SHOW search_path;
SET search_path = '$user', public;
SHOW search_path;
SET extra_float_digits = 3;
SHOW extra_float_digits;
SET my.custom = 'v';
SHOW my.custom;
SELECT current_setting('my.custom');
SHOW my.unknown;
--- set of wrong values
SET work_mem = 'soup';
SET extra_float_digits = 99;
SET DateStyle = 'soup';
SET TIME ZONE 'Mars/Olympus';
SET client_encoding = 'SOUP';
SET bytea_output = 'soup';
SET standard_conforming_strings = 'soup';
SET server_version = '1';
SET intervalstyle = 'soup';
SET statement_timeout = 'soup';
SET default_transaction_isolation = 'soup';
--- show all has names
SELECT count(*) > 50 FROM pg_settings;
--- current_setting and set_config
SELECT set_config('application_name', 'cfg', false), current_setting('application_name');
SELECT current_setting('no_such_setting');
SELECT current_setting('no_such_setting', true) IS NULL;
SELECT set_config('search_path', '', false);
SHOW search_path;
SELECT count(*) FROM drv_t;
SELECT count(*) FROM public.drv_t;
SELECT set_config('work_mem', '7MB', true);
SHOW work_mem;
SELECT current_setting('max_connections')::int > 0, current_setting('server_version_num')::int / 10000;
--- listen
LISTEN drv_channel;
SELECT pg_listening_channels();
UNLISTEN drv_channel;
SELECT count(*) FROM pg_listening_channels();
UNLISTEN *;
--- notify
NOTIFY drv_channel;
NOTIFY drv_channel, 'payload';
SELECT pg_notify('drv_channel', 'x');
--- prepare
PREPARE q (int, text) AS SELECT id FROM drv_t WHERE id > $1 AND name <> $2 ORDER BY id LIMIT 2;
EXECUTE q (3, 'n5');
EXECUTE q (7, NULL);
EXECUTE q (1);
EXECUTE q ('x', 'y');
PREPARE q AS SELECT 1;
SELECT name, parameter_types, from_sql FROM pg_prepared_statements;
DEALLOCATE q;
EXECUTE q (1, 'a');
DEALLOCATE q;
DEALLOCATE ALL;
DEALLOCATE PREPARE q;
PREPARE i (int, text) AS INSERT INTO drv_n VALUES ($1, $2);
EXECUTE i (1, 'one');
EXECUTE i (1 + 1, upper('two'));
SELECT * FROM drv_n ORDER BY a;
PREPARE d AS DELETE FROM drv_n;
EXECUTE d;
DEALLOCATE PREPARE ALL;
--- prepare without types
PREPARE u AS SELECT id FROM drv_t WHERE id = $1;
EXECUTE u ('3');
EXECUTE u (3);
EXECUTE u (3.0);
CREATE TEMP TABLE drv_e AS EXECUTE u (4);
SELECT * FROM drv_e;
EXPLAIN (COSTS OFF, FORMAT JSON) EXECUTE u (3) \g /dev/null
--- begin forms
BEGIN WORK;
COMMIT WORK;
BEGIN TRANSACTION;
END;
START TRANSACTION;
COMMIT TRANSACTION;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SHOW transaction_isolation;
SHOW transaction_read_only;
COMMIT;
START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE;
SHOW transaction_isolation;
ABORT;
BEGIN;
COMMIT AND CHAIN;
ROLLBACK AND NO CHAIN;
COMMIT;
ROLLBACK;
BEGIN;
BEGIN;
END;
--- set transaction
BEGIN;
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
SHOW transaction_isolation;
COMMIT;
SHOW transaction_isolation;
SET TRANSACTION READ ONLY;
BEGIN READ ONLY;
INSERT INTO drv_n VALUES (1, 'a');
ROLLBACK;
SET default_transaction_read_only = on;
INSERT INTO drv_n VALUES (1, 'a');
SET default_transaction_read_only = off;
BEGIN TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
SHOW transaction_isolation;
COMMIT;
--- savepoints
BEGIN;
SAVEPOINT a;
SELECT 1/0;
ROLLBACK TO SAVEPOINT a;
SELECT 1;
RELEASE SAVEPOINT a;
ROLLBACK TO a;
SELECT 1;
ROLLBACK;
SAVEPOINT outside;
RELEASE outside;
ROLLBACK TO outside;
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
RELEASE a;
ROLLBACK TO b;
COMMIT;
--- failed block ends in rollback
BEGIN;
SELECT 1/0;
SELECT 1;
COMMIT;
SELECT 1;
--- rollback of writes
BEGIN;
INSERT INTO drv_n VALUES (9, 'rolled back');
ROLLBACK;
SELECT count(*) FROM drv_n WHERE a = 9;
--- two phase
BEGIN;
PREPARE TRANSACTION 'x';
COMMIT PREPARED 'x';
--- explain
EXPLAIN (FORMAT JSON) SELECT 1 \g /dev/null
EXPLAIN ANALYZE SELECT 1 \g /dev/null
EXPLAIN (ANALYZE, BUFFERS, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT 1 \g /dev/null
EXPLAIN (ANALYZE true, FORMAT TEXT) SELECT 1 \g /dev/null
EXPLAIN (FORMAT YAML) SELECT 1 \g /dev/null
EXPLAIN (FORMAT XML) SELECT 1 \g /dev/null
EXPLAIN (FORMAT SOUP) SELECT 1;
EXPLAIN (SOUP) SELECT 1;
EXPLAIN VERBOSE SELECT 1 \g /dev/null
EXPLAIN INSERT INTO drv_n VALUES (1) \g /dev/null
EXPLAIN DELETE FROM drv_n \g /dev/null
EXPLAIN UPDATE drv_n SET a = 1 \g /dev/null
--- comment on
COMMENT ON TABLE drv_t IS 'a table';
COMMENT ON COLUMN drv_t.name IS 'a column';
COMMENT ON VIEW drv_v IS 'a view';
SELECT obj_description('drv_t'::regclass, 'pg_class'), obj_description('drv_v'::regclass), col_description('drv_t'::regclass, 2);
COMMENT ON TABLE drv_t IS NULL;
SELECT obj_description('drv_t'::regclass, 'pg_class');
COMMENT ON TABLE no_such IS 'x';
COMMENT ON SCHEMA public IS 'standard public schema';
COMMENT ON DATABASE nyala IS 'x';
COMMENT ON DATABASE nyala IS NULL;
--- upkeep
VACUUM;
VACUUM drv_t;
VACUUM FULL drv_t;
VACUUM (ANALYZE, VERBOSE OFF) drv_t;
VACUUM ANALYZE drv_t;
ANALYZE;
ANALYZE drv_t;
ANALYZE drv_t (id, name);
ANALYZE VERBOSE no_such_table;
CHECKPOINT;
REINDEX TABLE drv_t;
CLUSTER drv_t;
BEGIN;
VACUUM;
ROLLBACK;
--- lock
BEGIN;
LOCK TABLE drv_t;
LOCK TABLE drv_t IN ACCESS SHARE MODE;
LOCK drv_t IN SHARE ROW EXCLUSIVE MODE NOWAIT;
LOCK TABLE ONLY drv_t, drv_n IN EXCLUSIVE MODE;
COMMIT;
LOCK TABLE drv_t;
BEGIN;
LOCK TABLE no_such;
ROLLBACK;
--- advisory locks
SELECT pg_try_advisory_lock(1), pg_advisory_unlock(1);
SELECT pg_advisory_lock(5);
SELECT pg_advisory_unlock_all();
BEGIN;
SELECT pg_advisory_xact_lock(7);
SELECT pg_try_advisory_xact_lock(8);
COMMIT;
--- select for update
BEGIN;
SELECT id FROM drv_t WHERE id = 1 FOR UPDATE;
SELECT id FROM drv_t WHERE id = 1 FOR SHARE;
SELECT id FROM drv_t WHERE id = 1 FOR UPDATE SKIP LOCKED;
SELECT id FROM drv_t WHERE id = 1 FOR NO KEY UPDATE NOWAIT;
COMMIT;
--- truncate
INSERT INTO drv_n VALUES (1, 'a'), (2, 'b');
TRUNCATE drv_n;
SELECT count(*) FROM drv_n;
TRUNCATE TABLE drv_n RESTART IDENTITY CASCADE;
TRUNCATE ONLY drv_n, drv_n;
TRUNCATE no_such;
TRUNCATE drv_v;
--- grants
DROP ROLE IF EXISTS drv_reader;
CREATE ROLE drv_reader LOGIN;
GRANT SELECT ON drv_t TO drv_reader;
GRANT SELECT, INSERT ON TABLE drv_n TO drv_reader;
GRANT USAGE ON SCHEMA public TO drv_reader;
SELECT has_table_privilege('drv_reader', 'drv_t', 'SELECT'), has_table_privilege('drv_reader', 'drv_t', 'INSERT'), has_table_privilege('drv_reader', 'drv_n', 'INSERT'), has_any_column_privilege('drv_reader', 'drv_t', 'SELECT'), has_column_privilege('drv_reader', 'drv_t', 'name', 'SELECT');
SELECT grantee, privilege_type FROM information_schema.role_table_grants WHERE table_name = 'drv_n' AND grantee = 'drv_reader' ORDER BY 2;
REVOKE ALL ON drv_n FROM drv_reader;
REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA public FROM drv_reader;
SELECT has_table_privilege('drv_reader', 'drv_t', 'SELECT');
REVOKE USAGE ON SCHEMA public FROM drv_reader;
DROP ROLE drv_reader;
GRANT SELECT ON no_such TO nyala;
GRANT SELECT ON drv_t TO no_such_role;
--- version functions
SELECT version() LIKE 'PostgreSQL 15%', pg_backend_pid() > 0, pg_is_in_recovery(), current_database(), current_catalog, current_schema, current_schema(), current_user, session_user, user, current_role;
SELECT current_schemas(false), current_schemas(true);
SELECT inet_server_addr(), inet_client_addr(), inet_server_port() > 0, inet_client_port() > 0;
SELECT pg_postmaster_start_time() < now(), pg_conf_load_time() < now();
SELECT txid_current() > 0, txid_current_snapshot() IS NOT NULL, pg_current_xact_id() IS NOT NULL, txid_current_if_assigned() IS NULL;
SELECT pg_is_wal_replay_paused();
SELECT pg_last_wal_receive_lsn() IS NULL;
SELECT pg_current_wal_lsn() IS NOT NULL;
SELECT pg_my_temp_schema(), pg_is_other_temp_schema(1);
SELECT current_query();
--- cancel functions
SELECT pg_cancel_backend(1);
SELECT pg_terminate_backend(1);
--- sizes
SELECT pg_size_pretty(10::bigint), pg_size_pretty(123456::bigint), pg_size_pretty(123456789012::bigint), pg_size_pretty(1234567.5::numeric), pg_size_bytes('1 MB'), pg_size_bytes('2GB');
SELECT pg_table_size('drv_t') >= 0, pg_total_relation_size('drv_t') >= 0, pg_relation_size('drv_t') >= 0, pg_relation_size('drv_t', 'main') >= 0, pg_indexes_size('drv_t') >= 0, pg_database_size(current_database()) > 0, pg_database_size('nyala') > 0, pg_tablespace_size('pg_default') >= 0;
SELECT pg_table_size('no_such');
SELECT pg_column_size(1), pg_column_size('abc'::text), pg_relation_filenode('drv_t') IS NOT NULL, pg_relation_filepath('drv_v') IS NULL;
--- definitions
SELECT pg_get_viewdef('drv_v'::regclass) IS NOT NULL, pg_get_viewdef('drv_v', true) IS NOT NULL;
SELECT pg_get_constraintdef(oid), pg_get_constraintdef(oid, true) FROM pg_constraint WHERE conrelid = 'drv_t'::regclass;
SELECT pg_get_indexdef(indexrelid), pg_get_indexdef(indexrelid, 1, true), pg_get_indexdef(indexrelid, 0, false) FROM pg_index WHERE indrelid = 'drv_t'::regclass;
SELECT pg_get_viewdef(0), pg_get_constraintdef(0), pg_get_indexdef(0), pg_get_functiondef(0), pg_get_ruledef(0), pg_get_triggerdef(0), pg_get_userbyid(0), pg_get_expr(NULL, 0);
SELECT pg_get_serial_sequence('drv_t', 'id');
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'drv_t';
SELECT pg_get_function_result(oid), pg_get_function_arguments(oid), pg_get_function_identity_arguments(oid) FROM pg_proc WHERE proname = 'upper' AND pronargs = 1 ORDER BY 1;
SELECT pg_get_keywords() IS NOT NULL LIMIT 1;
SELECT word, catcode FROM pg_get_keywords() WHERE word = 'select';
SELECT format_type(23, NULL), format_type(1700, 655366), format_type(1043, 24), format_type(1114, 3), format_type(1007, NULL), format_type(0, NULL), format_type(NULL, NULL), format_type(999999, NULL), format_type(1042, 5), format_type(1560, 3), format_type(1186, NULL);
SELECT to_regclass('drv_t'), to_regclass('public.drv_t'), to_regclass('"drv_t"'), to_regclass('nope'), to_regtype('int4'), to_regtype('nope'), to_regproc('no_such_proc'), to_regnamespace('public'), to_regrole('nope');
SELECT pg_encoding_to_char(6), pg_encoding_to_char(encoding), pg_char_to_encoding('UTF8'), getdatabaseencoding(), pg_client_encoding() FROM pg_database WHERE datname = current_database();
SELECT pg_table_is_visible('drv_t'::regclass), pg_type_is_visible('int4'::regtype), pg_function_is_visible(1), pg_has_role('nyala', 'USAGE'), pg_has_role(current_user, 'MEMBER');
SELECT has_schema_privilege('public', 'CREATE'), has_schema_privilege('nope', 'USAGE');
SELECT has_database_privilege('nyala', 'CREATE'), has_column_privilege('drv_t', 'id', 'SELECT'), has_function_privilege('upper(text)', 'EXECUTE'), has_type_privilege('int4', 'USAGE'), has_language_privilege('sql', 'USAGE'), has_tablespace_privilege('pg_default', 'CREATE');
SELECT col_description('drv_t'::regclass, 1), shobj_description(1, 'pg_database'), obj_description(1);
SELECT pg_typeof(1), pg_typeof('x'), pg_typeof(NULL), pg_typeof(1.5), pg_typeof(now()), pg_typeof(ARRAY[1]), pg_typeof(ROW(1));
SELECT quote_ident('a b'), quote_ident('ab'), quote_literal('a''b'), quote_nullable(NULL), parse_ident('a."B".c');
SELECT pg_stat_get_numscans(1), pg_stat_get_live_tuples(0), pg_stat_get_backend_pid(1) IS NULL, pg_blocking_pids(pg_backend_pid());
SELECT pg_backend_pid() = pid FROM pg_stat_activity WHERE pid = pg_backend_pid();
SELECT pg_sleep(0);
SELECT pg_sleep_for('0.01 s');
SELECT pg_collation_for('x'::text), pg_tablespace_location(1663), pg_jit_available() IS NOT NULL, pg_trigger_depth();
SELECT pg_index_column_has_property(indexrelid, 1, 'asc'), pg_index_has_property(indexrelid, 'clusterable'), pg_indexam_has_property(2742, 'can_order') FROM pg_index WHERE indrelid = 'drv_t'::regclass;
--- arrays
SELECT array_to_string(ARRAY[1, NULL, 3], ','), array_to_string(ARRAY[1, NULL, 3], ',', '*'), string_to_array('a,b,,c', ','), string_to_array('a,b', ',', 'a'), string_to_array('', ','), string_to_array('abc', NULL);
SELECT unnest(ARRAY[1, 2, 3]);
SELECT * FROM unnest(ARRAY['a', 'b']) AS u(x);
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b', 'c']) AS t(a, b);
SELECT * FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS t(x, n);
SELECT array_agg(id ORDER BY id DESC) FROM drv_t WHERE id < 4;
SELECT array_length(ARRAY[1, 2], 1), array_upper(ARRAY[1, 2], 1), array_lower(ARRAY[1, 2], 1), cardinality(ARRAY[1, 2]), array_ndims(ARRAY[[1], [2]]), array_dims(ARRAY[1, 2]), array_position(ARRAY[1, 2], 2), array_append(ARRAY[1], 2), array_prepend(0, ARRAY[1]), array_cat(ARRAY[1], ARRAY[2]), array_remove(ARRAY[1, 2, 1], 1), array_replace(ARRAY[1, 2], 1, 9);
SELECT ARRAY(SELECT id FROM drv_t WHERE id < 4 ORDER BY id), (ARRAY[10, 20])[2], ARRAY[1, 2] || 3, ARRAY[1] @> ARRAY[1], ARRAY[1, 2] && ARRAY[2], 1 = ANY (ARRAY[1]), 1 = ALL ('{1,1}'::int[]);
SELECT '{1,2,NULL}'::int[], '{"a b",c}'::text[], ARRAY[]::int[], '{{1,2},{3,4}}'::int[], (ARRAY[1, 2, 3])[1:2];
SELECT generate_subscripts(ARRAY[7, 8], 1), current_schemas(true)::text[];
--- json
SELECT row_to_json(t) FROM (SELECT id, name FROM drv_t ORDER BY id LIMIT 2) AS t;
SELECT json_agg(t) FROM (SELECT id, name FROM drv_t ORDER BY id LIMIT 2) AS t;
SELECT json_build_object('a', 1, 'b', 'x', 'c', NULL), json_build_array(1, 'x', true), to_json('x'::text), array_to_json(ARRAY[1, 2]);
SELECT jsonb_build_object('a', 1), to_jsonb(1), jsonb_agg(id) FROM drv_t WHERE id = 1;
SELECT '{"a": {"b": [1, 2]}}'::json -> 'a' ->> 'b', '{"a": 1}'::jsonb ->> 'a', '{"a": {"b": 5}}'::json #>> '{a,b}', '{"a": 1}'::jsonb @> '{"a": 1}', '{"a": 1}'::jsonb ? 'a';
SELECT json_array_length('[1, 2]'), json_typeof('{}'), jsonb_pretty('{"a": 1}'), json_object_agg(id, name) FROM drv_t WHERE id = 1;
SELECT * FROM json_each_text('{"a": 1, "b": "x"}');
SELECT * FROM json_array_elements_text('["a", "b"]');
SELECT * FROM jsonb_to_recordset('[{"a": 1, "b": "x"}]') AS t(a int, b text);
SELECT coalesce(json_agg(x), '[]') FROM (SELECT 1 AS x WHERE false) AS q;
--- several statements in one message
SELECT 1 AS a\; SELECT 2 AS b\; SELECT 1/0\; SELECT 3
INSERT INTO drv_n VALUES (70, 'm')\; SELECT 1/0;
SELECT count(*) FROM drv_n WHERE a = 70;
--- command tags
INSERT INTO drv_n VALUES (1, 'a'), (2, 'b');
UPDATE drv_n SET b = 'c' WHERE a = 1;
DELETE FROM drv_n WHERE a > 1;
SELECT 1 WHERE false;
CREATE TABLE drv_tag AS SELECT 1 AS a;
DROP TABLE drv_tag;
CREATE SCHEMA drv_schema;
DROP SCHEMA drv_schema;
VALUES (1), (2);
TABLE drv_n;
DELETE FROM drv_n;
COPY drv_n FROM STDIN;
1	a
2	\N
\.
COPY drv_n TO STDOUT;
DELETE FROM drv_n;
SELECT 1 AS a INTO TEMP drv_into;
CREATE TEMP TABLE drv_ctas AS SELECT 1 AS a WITH NO DATA;
CREATE OR REPLACE VIEW drv_v AS SELECT id, name FROM drv_t WHERE id > 5;
--- objects that are not there
CREATE INDEX drv_i ON drv_t (name);
DROP INDEX IF EXISTS drv_i;
CREATE SEQUENCE drv_s;
DROP SEQUENCE IF EXISTS drv_s;
CREATE TABLE IF NOT EXISTS drv_t (id INT PRIMARY KEY);
CREATE TABLE drv_t (id INT PRIMARY KEY);
CREATE UNIQUE INDEX IF NOT EXISTS drv_u ON drv_n (a);
DROP INDEX IF EXISTS drv_u;
CREATE EXTENSION IF NOT EXISTS plpgsql;
DO $$ BEGIN END $$;
CREATE TABLE drv_serial (id SERIAL PRIMARY KEY, v TEXT);
INSERT INTO drv_serial (v) VALUES ('a') RETURNING id;
DROP TABLE IF EXISTS drv_serial;
CREATE TABLE drv_ident (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v TEXT);
DROP TABLE IF EXISTS drv_ident;
CREATE TABLE drv_fk (id INT PRIMARY KEY REFERENCES drv_t (id));
DROP TABLE IF EXISTS drv_fk;
CREATE TABLE drv_uq (id INT PRIMARY KEY, v TEXT UNIQUE, CHECK (id > 0));
DROP TABLE IF EXISTS drv_uq;
CREATE MATERIALIZED VIEW drv_mv AS SELECT 1 AS a;
DROP MATERIALIZED VIEW IF EXISTS drv_mv;
CREATE TYPE drv_e AS ENUM ('a');
DROP TYPE IF EXISTS drv_e;
--- comments in statements
/* a /* nested */ comment */ SELECT 1 -- tail
;
SELECT 'a'
'b';
SELECT E'a\nb\u00e9', U&'d\0061t', $$dollar$$, $tag$in $$ it$tag$, B'101', X'1F', 'it''s', N'n';
;
--- errors have states
SELECT 1/0;
SELECT 'x'::int;
SELECT no_such_function(1);
SELECT * FROM no_schema.t;
SELECT 9999999999::int;
SELECT id, count(*) FROM drv_t;
INSERT INTO drv_t (id) VALUES (1);
INSERT INTO drv_t (id) VALUES (NULL);
INSERT INTO drv_t (id, nope) VALUES (1, 2);
INSERT INTO drv_t (id, amount) VALUES (99, 123456789012);
SELECT '2024-13-01'::date;
SELECT 1 FROM drv_t a, drv_t b WHERE id = 1;
SELECT (SELECT id FROM drv_t);
SELECT sum(name) FROM drv_t;
SELECT 1 + 'x';
SELECT $1;
CREATE TABLE bad (a no_such_type);
DROP TABLE no_such;
DROP VIEW drv_t;
DROP TABLE drv_v;
CREATE SCHEMA public;
SELECT * FROM drv_t LIMIT -1;
SELECT id FROM drv_t UNION SELECT name FROM drv_t;
SELECT max(max(id)) FROM drv_t;
SELECT 1 WHERE count(*) > 1;
SELECT 'a' LIKE 'a\' ESCAPE 'ab';
SELECT '(' ~ '(';
SELECT chr(0);
SELECT 'x'::boolean;
SELECT '1 soup'::interval;
SELECT log(-1), sqrt(-1);
SELECT 2147483647 + 1;
SELECT now() AT TIME ZONE 'Nowhere/Land';
