// pg and what is built on it, postgres (porsager), knex, drizzle and sequelize: a line `name<TAB>answer` for each check, an error as its SQLSTATE.
import pg from 'pg';
import Cursor from 'pg-cursor';
import QueryStream from 'pg-query-stream';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import postgres from 'postgres';
import knexOf from 'knex';
import { drizzle } from 'drizzle-orm/node-postgres';
import { pgTable, integer, text, numeric, timestamp, boolean } from 'drizzle-orm/pg-core';
import { eq, gt, sql, and, inArray } from 'drizzle-orm';
import { Sequelize, DataTypes, Op } from 'sequelize';
import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';

const place = { host: process.env.PGHOST, port: +process.env.PGPORT, user: process.env.PGUSER, database: process.env.PGDATABASE };
const url = `postgres://${place.user}@${place.host}:${place.port}/${place.database}`;
const long = 'SELECT count(*) FROM generate_series(1, 1000000000) AS a(n) CROSS JOIN generate_series(1, 100000) AS b(m) WHERE n % 7 = 8';

// Errors of streams that were broken off come late, and belong to no check.
process.on('uncaughtException', () => {});
process.on('unhandledRejection', () => {});

const codeOf = (error) => error.code ?? error.original?.code ?? error.cause?.code ?? error.parent?.code;
const show = (value) => JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}n` : v instanceof RegExp ? String(v) : v));

async function check(name, run) {
  let answer;
  let timer;
  try {
    const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error('no answer in 20 s')), 20000); });
    answer = show(await Promise.race([run(), late]));
  } catch (error) {
    const code = codeOf(error);
    answer = code ? `SQLSTATE ${code}` : `error ${error.message}`;
  }
  clearTimeout(timer);
  console.log(`${name}\t${String(answer).replaceAll('\n', '\\n')}`);
}

const withClient = (run, options = {}) => async () => {
  const client = new pg.Client({ ...place, ...options });
  client.on('error', () => {});
  await client.connect();
  try {
    return await run(client);
  } finally {
    await client.end().catch(() => {});
  }
};
const rowsOf = async (client, ...query) => (await client.query(...query)).rows;

const setup = new pg.Client(place);
await setup.connect();
for (const statement of [
  'DROP TABLE IF EXISTS js_all', 'DROP TABLE IF EXISTS js_rows', 'DROP TABLE IF EXISTS js_copy',
  'CREATE TABLE js_all (id INT PRIMARY KEY, i2 SMALLINT, i8 BIGINT, f4 REAL, f8 DOUBLE PRECISION, n NUMERIC(12,3), t TEXT, b BOOLEAN, d DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, "by" BYTEA, u UUID, iv INTERVAL, ia INT[], ta TEXT[])',
  'CREATE TABLE js_rows (id INT PRIMARY KEY, name TEXT, amount NUMERIC(10,2), placed TIMESTAMP, ok BOOLEAN)', 'CREATE TABLE js_copy (a INT, b TEXT)',
  "INSERT INTO js_rows SELECT n, 'n' || n, n, TIMESTAMP '2024-01-01 00:00:00' + n * INTERVAL '1 day', n % 2 = 0 FROM generate_series(1, 100) AS g(n)",
  "INSERT INTO js_all VALUES (1, 2, 3, 1.5, 2.5, 12.345, 'text', true, '2024-02-29', '12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+02', '\\x0102', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1 mon 2 days 03:04:05', '{1,2}', '{\"a\",NULL}')",
]) {
  await setup.query(statement).catch((error) => console.log(`setup ${statement.slice(0, 30)}\t${error.message}`));
}

// pg
for (const binary of [false, true]) {
  const name = (title) => `pg ${binary ? 'binary' : 'text'}: ${title}`;
  await check(name('all types'), withClient((c) => rowsOf(c, 'SELECT * FROM js_all'), { binary }));
  await check(name('parameters'), withClient((c) => rowsOf(c, 'SELECT count(*) FROM js_all WHERE id = $1 AND i8 = $2 AND f8 = $3 AND n = $4 AND t = $5 AND b = $6 AND u = $7 AND "by" = $8',
    [1, 3n.toString(), 2.5, '12.345', 'text', true, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', Buffer.from([1, 2])]), { binary }));
  await check(name('date parameters'), withClient((c) => rowsOf(c, 'SELECT count(*) FROM js_all WHERE ts = $1 AND tz = $2', [new Date('2024-02-29T12:34:56.789Z'), new Date('2024-02-29T10:34:56.789Z')]), { binary }));
  await check(name('date parameter to a date'), withClient((c) => rowsOf(c, 'SELECT count(*) FROM js_all WHERE d = $1', [new Date('2024-02-29T00:00:00Z')]), { binary }));
  await check(name('array parameter'), withClient((c) => rowsOf(c, 'SELECT id FROM js_rows WHERE id = ANY ($1) ORDER BY id', [[1, 2, 3]]), { binary }));
  await check(name('array of texts'), withClient((c) => rowsOf(c, 'SELECT id FROM js_rows WHERE name = ANY ($1::text[]) ORDER BY id', [['n1', 'n,2', null]]), { binary }));
  await check(name('untyped parameters'), withClient((c) => rowsOf(c, 'SELECT $1 AS a, $2::int AS b, $3::text AS c', ['x', 5, 7]), { binary }));
  await check(name('null parameter'), withClient((c) => rowsOf(c, 'SELECT $1::int IS NULL AS n', [null]), { binary }));
  await check(name('number to text'), withClient((c) => rowsOf(c, 'SELECT id FROM js_rows WHERE name = $1', [5]), { binary }));
  await check(name('limit'), withClient((c) => rowsOf(c, 'SELECT id FROM js_rows ORDER BY id LIMIT $1 OFFSET $2', [2, 1]), { binary }));
  await check(name('literals'), withClient((c) => rowsOf(c, "SELECT 1 AS a, 1.5 AS b, 'x' AS c, true AS d, NULL AS e, ARRAY[1, 2] AS f, 2147483648 AS g, DATE '2024-01-02' AS h, interval '1 day 2 hours' AS i"), { binary }));
}
await check('pg: literals in JavaScript', withClient((c) => rowsOf(c, 'SELECT 1 AS a, sum(id) AS b, count(*) AS c, id + 1 AS d, avg(id) AS e FROM js_rows WHERE id = 1 GROUP BY id')));
await check('pg: fields', withClient(async (c) => (await c.query('SELECT id, n, t, ts, 1 AS one FROM js_all')).fields.map((f) => [f.name, f.dataTypeID, f.dataTypeSize, f.dataTypeModifier, f.tableID > 0, f.columnID])));
await check('pg: row mode array', withClient((c) => rowsOf(c, { text: 'SELECT id, name FROM js_rows WHERE id < 3 ORDER BY id', rowMode: 'array' })));
await check('pg: several statements', withClient(async (c) => (await c.query('SELECT true AS a; SELECT false AS b; DELETE FROM js_rows WHERE id < 0')).map((r) => [r.command, r.rowCount, r.rows])));
await check('pg: named statement', withClient(async (c) => { const out = []; for (let i = 1; i < 8; i++) out.push((await c.query({ name: 'by-id', text: 'SELECT name FROM js_rows WHERE id = $1', values: [i] })).rows[0].name); return out; }));
await check('pg: named statement of another text', withClient(async (c) => { await c.query({ name: 'same', text: 'SELECT 1' }); return rowsOf(c, { name: 'same', text: 'SELECT 2' }); }));
await check('pg: commands', withClient(async (c) => { const out = []; for (const s of ["INSERT INTO js_rows (id, name) VALUES (501, 'a'), (502, 'b')", "UPDATE js_rows SET name = 'c' WHERE id > 500", 'DELETE FROM js_rows WHERE id > 500', 'SELECT 1', 'BEGIN', 'COMMIT', "SET application_name = 'x'"]) { const r = await c.query(s); out.push([r.command, r.rowCount, r.oid]); } return out; }));
await check('pg: returning', withClient((c) => rowsOf(c, 'INSERT INTO js_rows (id, name) VALUES ($1, $2) RETURNING id, name, amount', [503, 'r'])));
await check('pg: delete returning', withClient((c) => rowsOf(c, 'DELETE FROM js_rows WHERE id = $1 RETURNING *', [503])));
await check('pg: json value', withClient((c) => rowsOf(c, 'SELECT $1::jsonb AS j', [{ a: [1] }])));
await check('pg: insert of all', withClient(async (c) => { await c.query('INSERT INTO js_all VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)', [2, 2, '9007199254740993', 1.5, 2.5, '12.345', "it's", false, '2024-02-29', '12:34:56', new Date('2024-02-29T12:34:56.789Z'), new Date('2024-02-29T12:34:56.789Z'), Buffer.from([0, 255]), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1 day', [1, 2], ['a b', 'c"d', null]]); return rowsOf(c, 'DELETE FROM js_all WHERE id = 2 RETURNING *'); }));
await check('pg: error fields', withClient(async (c) => { try { await c.query('SELECT id, nope FROM js_rows'); } catch (e) { return [e.code, e.severity, e.position]; } }));
await check('pg: transaction after an error', withClient(async (c) => { const out = []; for (const s of ['BEGIN', 'SAVEPOINT a', 'SELECT 1/0', 'SELECT 1', 'ROLLBACK TO SAVEPOINT a', 'SELECT 1', 'COMMIT']) { try { out.push((await c.query(s)).command); } catch (e) { out.push(e.code); } } return out; }));
await check('pg: notices', withClient(async (c) => { const seen = []; c.on('notice', (n) => seen.push([n.severity, n.code])); await c.query('DROP TABLE IF EXISTS js_missing'); return seen; }));
await check('pg: listen', withClient(async (c) => { const heard = new Promise((yes) => c.on('notification', (n) => yes([n.channel, n.payload]))); await c.query('LISTEN js_channel'); await c.query("NOTIFY js_channel, 'hello'"); return heard; }));
await check('pg: query timeout', withClient(async (c) => { await c.query("SET statement_timeout = '300ms'"); try { await c.query(long); } catch (e) { return [e.code, await rowsOf(c, 'SELECT true AS a')]; } }));
await check('pg: statement timeout option', withClient((c) => rowsOf(c, long), { statement_timeout: 300 }));
await check('pg: lock and idle timeouts', withClient((c) => rowsOf(c, 'SELECT true AS a'), { lock_timeout: 300, idle_in_transaction_session_timeout: 3000 }));
await check('pg: options', withClient((c) => rowsOf(c, 'SHOW statement_timeout'), { options: '-c statement_timeout=1234' }));
await check('pg: application name', withClient((c) => rowsOf(c, 'SHOW application_name'), { application_name: 'js app' }));
await check('pg: cancel', withClient(async (c) => { const killer = new pg.Client(place); await killer.connect(); const ended = c.query(long).then(() => 'ended', (e) => e.code); await new Promise((r) => setTimeout(r, 300)); await killer.query('SELECT pg_cancel_backend($1)', [c.processID]).catch(() => c.connection.stream.destroy()); const answer = await ended; await killer.end(); return answer; }));
await check('pg: terminate', withClient(async (c) => { const killer = new pg.Client(place); await killer.connect(); try { return (await killer.query('SELECT pg_terminate_backend($1) AS done', [c.processID])).rows; } finally { await killer.end(); } }));
await check('pg: pool', async () => { const pool = new pg.Pool({ ...place, max: 4 }); const got = await Promise.all(Array.from({ length: 40 }, (_, i) => pool.query('SELECT id FROM js_rows WHERE id = $1', [i + 1]))); await pool.end(); return got.map((r) => r.rows[0].id).join(); });
await check('pg: cursor', withClient(async (c) => { const cursor = c.query(new Cursor('SELECT id FROM js_rows WHERE id > $1 ORDER BY id', [90])); const a = await cursor.read(3), b = await cursor.read(100), d = await cursor.read(1); await cursor.close(); return [a, b.length, d, await rowsOf(c, 'SELECT true AS a')]; }));
await check('pg: cursor closed early', withClient(async (c) => { const cursor = c.query(new Cursor('SELECT id FROM js_rows ORDER BY id')); await cursor.read(1); await cursor.close(); return rowsOf(c, 'SELECT true AS a'); }));
await check('pg: cursor that fails', withClient(async (c) => { const cursor = c.query(new Cursor('SELECT 1 / (50 - id) FROM js_rows ORDER BY id')); try { for (let i = 0; i < 5; i++) await cursor.read(20); return 'no error'; } catch (e) { return [e.code, await rowsOf(c, 'SELECT true AS a')]; } }));
await check('pg: query stream', withClient(async (c) => { let n = 0; for await (const row of c.query(new QueryStream('SELECT id FROM js_rows ORDER BY id', [], { batchSize: 7 }))) n += row.id; return n; }));
await check('pg: query stream broken off', withClient(async (c) => { let n = 0; for await (const row of c.query(new QueryStream('SELECT id FROM js_rows ORDER BY id', [], { batchSize: 7 }))) { n += row.id; if (row.id > 9) break; } return [n, await rowsOf(c, 'SELECT true AS a')]; }));
await check('pg: copy from', withClient(async (c) => { const stream = c.query(copyFrom('COPY js_copy FROM STDIN')); await pipeline(Readable.from(['1\ta\n', '2\t\\N\n3\tx', '\\ty\n']), stream); return [stream.rowCount, await rowsOf(c, 'SELECT * FROM js_copy ORDER BY a')]; }));
await check('pg: copy to', withClient(async (c) => { const parts = []; const stream = c.query(copyTo('COPY (SELECT * FROM js_copy ORDER BY a) TO STDOUT (FORMAT csv, HEADER)')); for await (const part of stream) parts.push(String(part)); return [parts.join(''), stream.rowCount]; }));
await check('pg: copy that fails', withClient(async (c) => { const stream = c.query(copyFrom('COPY js_copy FROM STDIN')); try { await pipeline(Readable.from(['x\ta\n']), stream); return 'written'; } catch (e) { return [e.code, await rowsOf(c, 'SELECT count(*) FROM js_copy')]; } }));
await check('pg: copy broken off', withClient(async (c) => { const stream = c.query(copyFrom('COPY js_copy FROM STDIN')); stream.on('error', () => {}); stream.write('9\tx\n'); stream.destroy(new Error('stop')); await new Promise((r) => setTimeout(r, 200)); return rowsOf(c, 'SELECT count(*) FROM js_copy WHERE a = 9'); }));

// postgres (porsager)
const withSql = (run, options = {}) => async () => {
  const s = postgres(url, { max: 1, onnotice: () => {}, ...options });
  try {
    return await run(s);
  } finally {
    await s.end({ timeout: 1 });
  }
};
await check('postgres: all types', withSql((s) => s`SELECT * FROM js_all`));
await check('postgres: parameters', withSql((s) => s`SELECT count(*) FROM js_all WHERE id = ${1} AND f8 = ${2.5} AND n = ${'12.345'} AND t = ${'text'} AND b = ${true} AND "by" = ${Buffer.from([1, 2])}`));
await check('postgres: date', withSql((s) => s`SELECT count(*) FROM js_all WHERE ts = ${new Date('2024-02-29T12:34:56.789Z')} AND d = ${'2024-02-29'}`));
await check('postgres: bigint', withSql((s) => s`SELECT i8 FROM js_all WHERE i8 = ${3}`, { types: { bigint: postgres.BigInt } }));
await check('postgres: in list', withSql((s) => s`SELECT id FROM js_rows WHERE id IN ${s([1, 2, 3])} ORDER BY id`));
await check('postgres: array', withSql((s) => s`SELECT id FROM js_rows WHERE id = ANY (${[1, 2]}) ORDER BY id`));
await check('postgres: text array', withSql((s) => s`SELECT id FROM js_rows WHERE name = ANY (${['n1', 'n2']}) ORDER BY id`));
await check('postgres: array types', withSql((s) => s`SELECT ia, ta FROM js_all`));
await check('postgres: insert helper', withSql(async (s) => { const rows = [{ id: 601, name: 'a', amount: 1.5 }, { id: 602, name: null, amount: 2 }]; const made = await s`INSERT INTO js_rows ${s(rows, 'id', 'name', 'amount')} RETURNING id, name, amount`; const updated = await s`UPDATE js_rows SET ${s({ name: 'z' }, 'name')} WHERE id = 601 RETURNING name`; const gone = await s`DELETE FROM js_rows WHERE id > 600`; return [made, updated, gone.count, gone.command]; }));
await check('postgres: insert of parameters', withSql(async (s) => { const made = await s`INSERT INTO js_all (id, i8, f8, n, b, d, ts, tz, u, ia, ta) VALUES (${700}, ${5}, ${1.5}, ${2.5}, ${true}, ${new Date('2024-02-29T00:00:00Z')}, ${new Date('2024-02-29T01:02:03Z')}, ${new Date('2024-02-29T01:02:03Z')}, ${'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'}, ${[1, 2]}, ${['a', null]}) RETURNING *`; await s`DELETE FROM js_all WHERE id = 700`; return made; }));
await check('postgres: transaction', withSql((s) => s.begin(async (t) => { await t`SELECT 1`; const inner = await t.savepoint((p) => p`SELECT 1/0`).catch((e) => e.code); return [inner, await t`SELECT true AS a`]; })));
await check('postgres: transaction options', withSql((s) => s.begin('isolation level serializable read only', (t) => t`SHOW transaction_isolation`)));
await check('postgres: cursor', withSql(async (s) => { const sizes = []; for await (const part of s`SELECT id FROM js_rows ORDER BY id`.cursor(30)) sizes.push(part.length); return sizes; }));
await check('postgres: cursor stopped', withSql(async (s) => { let n = 0; await s`SELECT id FROM js_rows ORDER BY id`.cursor(10, () => (++n === 2 ? s.CLOSE : undefined)); return [n, await s`SELECT true AS a`]; }));
await check('postgres: for each', withSql(async (s) => { let n = 0; await s`SELECT id FROM js_rows`.forEach((row) => { n += row.id; }); return n; }));
await check('postgres: simple', withSql((s) => s`SELECT true AS a; SELECT false AS b`.simple()));
await check('postgres: unsafe', withSql((s) => s.unsafe('SELECT $1::int + 1 AS a, name FROM js_rows WHERE id = $1', [4])));
await check('postgres: describe', withSql(async (s) => { const d = await s`SELECT id, n, ts FROM js_all WHERE id = ${1} AND u = ${'x'} AND ia = ${'{}'}`.describe(); return [d.types, d.columns.map((c) => [c.name, c.type])]; }));
await check('postgres: values', withSql((s) => s`SELECT id, name FROM js_rows WHERE id < 3 ORDER BY id`.values()));
await check('postgres: raw', withSql(async (s) => (await s`SELECT id, ok FROM js_rows WHERE id = 1`.raw()).map((r) => r.map(String))));
await check('postgres: pipelined', withSql(async (s) => (await Promise.all(Array.from({ length: 50 }, (_, i) => s`SELECT id FROM js_rows WHERE id = ${i + 1}`))).map((r) => r[0].id).join()));
await check('postgres: copy in', withSql(async (s) => { const w = await s`COPY js_copy FROM STDIN`.writable(); await pipeline(Readable.from(['11\ta\n', '12\tb\n']), w); return s`SELECT count(*) FROM js_copy WHERE a > 10`; }));
await check('postgres: copy out', withSql(async (s) => { const r = await s`COPY (SELECT a FROM js_copy WHERE a > 10 ORDER BY a) TO STDOUT`.readable(); const parts = []; for await (const p of r) parts.push(String(p)); return parts.join(''); }));
await check('postgres: listen', withSql(async (s) => { const heard = new Promise((yes, no) => { s.listen('ps_channel', yes).catch(no); }); await new Promise((r) => setTimeout(r, 300)); await s.notify('ps_channel', 'hello'); return heard; }));
await check('postgres: cancel', withSql(async (s) => { const q = s.unsafe(long); const ended = q.execute().then(() => 'ended', (e) => e.code); await new Promise((r) => setTimeout(r, 400)); q.cancel(); return [await ended, await s`SELECT true AS a`]; }));
await check('postgres: error', withSql((s) => s`SELECT nope`));
await check('postgres: connection settings', withSql((s) => s`SELECT current_setting('application_name') AS a, current_setting('statement_timeout') AS b`, { connection: { application_name: 'ps', statement_timeout: 5000 } }));
await check('postgres: target session', withSql((s) => s`SELECT true AS a`, { target_session_attrs: 'read-write' }));
await check('postgres: json', withSql((s) => s`SELECT ${s.json({ a: 1 })}::jsonb AS j`));

// knex
const withKnex = (run) => async () => { const k = knexOf({ client: 'pg', connection: place, pool: { min: 0, max: 2 } }); try { return await run(k); } finally { await k.destroy(); } };
await check('knex: schema', withKnex(async (k) => { await k.schema.dropTableIfExists('kx'); await k.schema.createTable('kx', (t) => { t.integer('id').primary(); t.string('name', 20).notNullable().defaultTo('x'); t.decimal('amount', 10, 2); t.timestamp('at', { useTz: false }); t.boolean('ok'); t.bigInteger('big'); t.date('day'); t.float('ratio'); t.text('note'); t.uuid('u'); t.binary('raw'); }); return [await k.schema.hasTable('kx'), await k.schema.hasColumn('kx', 'name'), await k('kx').columnInfo()]; }));
await check('knex: increments and timestamps', withKnex(async (k) => { await k.schema.dropTableIfExists('kx2'); await k.schema.createTable('kx2', (t) => { t.increments('id'); t.timestamps(true, true); t.json('j'); t.jsonb('jb'); }); return k('kx2').columnInfo(); }));
await check('knex: unique and index', withKnex(async (k) => { await k.schema.dropTableIfExists('kx3'); await k.schema.createTable('kx3', (t) => { t.integer('id').primary(); t.string('name').unique(); t.index(['name']); }); return 'made'; }));
await check('knex: insert and select', withKnex(async (k) => { const ids = await k('kx').insert([{ id: 1, name: 'a', amount: 1.5, ok: true }, { id: 2, name: 'b', amount: null, ok: false }]).returning(['id', 'name']); const rows = await k('kx').where('id', '>', 0).whereIn('name', ['a', 'b']).orderBy('id', 'desc').limit(5).offset(0).select('id', 'name', 'amount', 'ok'); const n = await k('kx').count('* as n').sum('amount as s').first(); const u = await k('kx').where({ id: 1 }).update({ name: 'z' }, ['name']); const d = await k('kx').where('id', 2).del(); return [ids, rows, n, u, d]; }));
await check('knex: upsert', withKnex(async (k) => [await k('kx').insert({ id: 1, name: 'm', amount: 3, ok: true, at: null, big: null, day: null, ratio: null, note: null, u: null, raw: null }).onConflict('id').merge().returning('name'), await k('kx').insert({ id: 1, name: 'q' }).onConflict('id').ignore()]));
await check('knex: transaction', withKnex((k) => k.transaction(async (t) => { await t('kx').insert({ id: 7, name: 't' }); return t('kx').where('id', 7).pluck('name'); })));
await check('knex: group and join', withKnex((k) => k('js_rows as r').join('js_rows as s', 'r.id', 's.id').where('r.id', '<', 5).groupBy('r.ok').orderBy('r.ok').select('r.ok').count('* as n').max('s.amount as m')));
await check('knex: stream', withKnex(async (k) => { let n = 0; for await (const row of k('js_rows').select('id').stream()) n += row.id; return n; }));
await check('knex: raw', withKnex(async (k) => (await k.raw('SELECT ? AS a, ??.id FROM ?? WHERE id = ?', ['x', 'js_rows', 'js_rows', 1])).rows));
await check('knex: alter', withKnex(async (k) => { await k.schema.alterTable('kx', (t) => { t.integer('extra'); }); await k.schema.alterTable('kx', (t) => { t.dropColumn('extra'); }); return k.schema.hasColumn('kx', 'extra'); }));
await check('knex: rename', withKnex(async (k) => { await k.schema.renameTable('kx', 'kx_renamed'); return k.schema.hasTable('kx_renamed'); }));
await check('knex: truncate', withKnex(async (k) => { await k('kx_renamed').truncate(); return k('kx_renamed').count(); }));
await check('knex: migrations', withKnex(async (k) => { await k.schema.dropTableIfExists('knex_migrations'); await k.schema.dropTableIfExists('knex_migrations_lock'); const source = { getMigrations: async () => ['one'], getMigrationName: (m) => m, getMigration: async () => ({ up: (t) => t.schema.createTable('kx_made', (c) => { c.integer('id').primary(); }), down: (t) => t.schema.dropTable('kx_made') }) }; await k.schema.dropTableIfExists('kx_made'); const [batch, names] = await k.migrate.latest({ migrationSource: source }); await k.migrate.rollback({ migrationSource: source }); return [batch, names]; }));
await check('knex: drop', withKnex(async (k) => { for (const t of ['kx_renamed', 'kx', 'kx2', 'kx3', 'knex_migrations', 'knex_migrations_lock']) await k.schema.dropTableIfExists(t); return 'dropped'; }));

// drizzle
const jsRows = pgTable('js_rows', { id: integer('id').primaryKey(), name: text('name'), amount: numeric('amount', { precision: 10, scale: 2 }), placed: timestamp('placed'), ok: boolean('ok') });
const withDrizzle = (run) => async () => { const pool = new pg.Pool(place); try { return await run(drizzle(pool)); } finally { await pool.end(); } };
await check('drizzle: select', withDrizzle((d) => d.select().from(jsRows).where(and(gt(jsRows.id, 2), inArray(jsRows.name, ['n3', 'n4']))).orderBy(jsRows.id).limit(2)));
await check('drizzle: aggregate', withDrizzle((d) => d.select({ ok: jsRows.ok, n: sql`count(*)`.mapWith(Number), total: sql`sum(${jsRows.amount})` }).from(jsRows).groupBy(jsRows.ok).orderBy(jsRows.ok)));
await check('drizzle: insert and delete', withDrizzle(async (d) => [await d.insert(jsRows).values({ id: 801, name: 'd', amount: '1.50', placed: new Date('2024-01-01T00:00:00Z'), ok: true }).returning(), await d.update(jsRows).set({ name: 'e' }).where(eq(jsRows.id, 801)).returning({ name: jsRows.name }), await d.delete(jsRows).where(eq(jsRows.id, 801)).returning({ id: jsRows.id })]));
await check('drizzle: upsert', withDrizzle((d) => d.insert(jsRows).values({ id: 1, name: 'n1', amount: '1.00', placed: new Date('2024-01-02T00:00:00Z'), ok: false }).onConflictDoUpdate({ target: jsRows.id, set: { name: 'n1' } }).returning({ name: jsRows.name })));
await check('drizzle: insert with defaults', withDrizzle(async (d) => { await d.insert(jsRows).values({ id: 802 }); return d.delete(jsRows).where(eq(jsRows.id, 802)).returning(); }));
await check('drizzle: transaction', withDrizzle((d) => d.transaction((t) => t.select({ id: jsRows.id }).from(jsRows).where(eq(jsRows.id, 5)), { isolationLevel: 'serializable' })));
await check('drizzle: prepared', withDrizzle((d) => d.select({ name: jsRows.name }).from(jsRows).where(eq(jsRows.id, sql.placeholder('id'))).prepare('by_id').execute({ id: 6 })));

// sequelize
const withSequelize = (run, options = { keepDefaultTimezone: true }) => async () => { const s = new Sequelize(url, { logging: false, ...options, define: { timestamps: false } }); try { return await run(s, s.define('sq_rows', { id: { type: DataTypes.INTEGER, primaryKey: true }, name: { type: DataTypes.STRING(30), defaultValue: 'x' }, amount: DataTypes.DECIMAL(10, 2), at: DataTypes.DATE, day: DataTypes.DATEONLY, ok: DataTypes.BOOLEAN, big: DataTypes.BIGINT }, { tableName: 'sq_rows' })); } finally { await s.close(); } };
const plain = (rows) => rows.map((r) => r.get({ plain: true }));
await check('sequelize: authenticate', withSequelize((s) => s.authenticate(), {}));
await check('sequelize: sync', withSequelize(async (s, m) => { await m.sync({ force: true }); return m.describe(); }));
await check('sequelize: create', withSequelize(async (s, m) => plain(await m.bulkCreate([{ id: 1, name: 'a', amount: 1.5, at: new Date('2024-01-02T03:04:05Z'), day: '2024-01-02', ok: true, big: '5' }, { id: 2, name: 'b' }], { returning: true }))));
await check('sequelize: create one', withSequelize(async (s, m) => (await m.create({ id: 3, name: "it's" })).get({ plain: true })));
await check('sequelize: find', withSequelize(async (s, m) => plain(await m.findAll({ where: { id: { [Op.gt]: 0 }, name: { [Op.like]: '%' } }, order: [['id', 'DESC']], limit: 2, offset: 0 }))));
await check('sequelize: find and count', withSequelize(async (s, m) => { const r = await m.findAndCountAll({ where: { name: ['a', 'b'] }, order: ['id'] }); return [r.count, plain(r.rows)]; }));
await check('sequelize: aggregate', withSequelize(async (s, m) => [await m.count(), await m.max('id'), await m.sum('amount')]));
await check('sequelize: update', withSequelize((s, m) => m.update({ name: 'z' }, { where: { id: 1 } })));
await check('sequelize: upsert', withSequelize(async (s, m) => (await m.upsert({ id: 1, name: 'u', amount: 2, at: null, day: null, ok: false, big: 1 }))[0].get({ plain: true })));
await check('sequelize: destroy', withSequelize((s, m) => m.destroy({ where: { id: 2 } })));
await check('sequelize: transaction', withSequelize((s, m) => s.transaction(async (t) => plain(await m.findAll({ transaction: t, order: ['id'], attributes: ['id'] })))));
await check('sequelize: lock', withSequelize((s, m) => s.transaction(async (t) => plain(await m.findAll({ transaction: t, lock: true, order: ['id'], attributes: ['id'] })))));
await check('sequelize: tables', withSequelize(async (s) => (await s.getQueryInterface().showAllTables()).includes('sq_rows')));
await check('sequelize: indexes', withSequelize(async (s) => (await s.getQueryInterface().showIndex('sq_rows')).map((i) => [i.name, i.primary, i.unique, i.fields.map((f) => f.attribute)])));
await check('sequelize: add column', withSequelize(async (s) => { const q = s.getQueryInterface(); await q.addColumn('sq_rows', 'extra', { type: DataTypes.INTEGER }); await q.removeColumn('sq_rows', 'extra'); return Object.keys(await q.describeTable('sq_rows')); }));
await check('sequelize: drop', withSequelize((s, m) => m.drop()));

for (const table of ['js_all', 'js_rows', 'js_copy', 'sq_rows']) await setup.query(`DROP TABLE IF EXISTS ${table}`);
await setup.end();
process.exit(0);
