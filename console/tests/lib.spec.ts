// Parts that need no browser.

import { chartOption, defaultChart } from '../src/lib/chart';
import { compareRows } from '../src/lib/compare';
import { writeRows } from '../src/lib/copy';
import { groupDigits, percentOf } from '../src/lib/format';
import { cuboidsOf, dimensionsOf, idleReason } from '../src/lib/lattice';
import { finderOf, missedShapes } from '../src/lib/misses';
import { passwordFault, shownStatement } from '../src/lib/own-password';
import { parsePlan } from '../src/lib/plan';
import { ResultStream } from '../src/lib/result-stream';
import { readRoute } from '../src/lib/route';
import { freeName, MAX_NAME_CHARS, mergeSaved, nameFault, readSaved, savedDocument, searchSaved } from '../src/lib/saved-queries';
import { segmentsOf } from '../src/lib/segments';
import {
  boundLiteral,
  createdCube,
  isReadOnly,
  isRepeatable,
  quoteName,
  shortName,
  splitName,
  splitStatements,
  statementAt,
  wordsOf,
} from '../src/lib/sql';
import { check, equal, unit } from './harness';

const column = (name: string, type: string) => ({ name, type, nullable: true });

unit('a result is read whatever pieces it comes in', async () => {
  const document =
    '{"columns":[{"name":"a,\\"rows\\":[","type":"bigint","nullable":false},{"name":"b","type":"text","nullable":true}],"rows":[\n' +
    '[9007199254740993,"x]\\"\\\\,"],\n[-1.50,null],\n[null,"null"],\n[[1,{"k":"]"}],"\\u00e9"]],"row_count":4,"elapsed_ms":1.5}\n';
  for (let size = 1; size <= document.length; size += 1) {
    const stream = new ResultStream();
    const rows = [];
    for (let at = 0; at < document.length; at += size) rows.push(...stream.push(document.slice(at, at + size)));
    equal(
      rows,
      [
        ['9007199254740993', 'x]"\\,'],
        ['-1.50', null],
        [null, 'null'],
        ['[1,{"k":"]"}]', 'é'],
      ],
      `pieces of ${size}`,
    );
    equal(stream.end(), { rows: [], summary: { command: null, elapsedMs: 1.5, more: false, route: null } });
    equal(stream.columns?.[0]?.name, 'a,"rows":[');
  }
  const cut = new ResultStream();
  cut.push(document.slice(0, document.length - 20));
  equal(cut.end().summary, null, 'a document without its end');
});

unit('a row that is longer than a piece is read to its end', async () => {
  const text = 'x'.repeat(1_000_000);
  const document = `{"columns":[{"name":"a","type":"text","nullable":true}],"rows":[["${text}"]],"row_count":1}`;
  for (const share of [0.3, 0.6, 0.9]) {
    const stream = new ResultStream();
    const cut = document.length * share;
    const rows = [...stream.push(document.slice(0, cut)), ...stream.push(document.slice(cut))];
    const end = stream.end();
    equal([...rows, ...end.rows], [[text]], `cut at ${share}`);
    check(end.summary, `an end after a cut at ${share}`);
  }
});

unit('a script is taken apart at semicolons that separate', async () => {
  const script = `SELECT ';' AS "a;b"; -- a comment; more\n/* ; */ SELECT $$;$$; ;\n`;
  equal(
    splitStatements(script).map((statement) => statement.text),
    [`SELECT ';' AS "a;b"`, `-- a comment; more\n/* ; */ SELECT $$;$$`],
  );
  equal(statementAt('SELECT 1; SELECT 2', 3)?.text, 'SELECT 1');
  equal(statementAt('SELECT 1; SELECT 2;\n', 20)?.text, 'SELECT 2');
  equal(statementAt('  ', 1), null);
});

unit('names are quoted', async () => {
  equal(quoteName('a"b'), '"a""b"');
  equal(shortName('plain_1'), 'plain_1');
  equal(shortName('Order'), '"Order"');
  equal(shortName('order'), '"order"');
  equal(splitName('"Odd ""x"""."a.b"'), { schema: 'Odd "x"', name: 'a.b' });
  equal(createdCube('CREATE CUBE public."my cube" AS SELECT'), { schema: 'public', name: 'my cube' });
  equal(
    [boundLiteral('19980101'), boundLiteral('2026-01-01'), boundLiteral('2026-01-01T00:00:00')],
    ['19980101', "DATE '2026-01-01'", "TIMESTAMP '2026-01-01T00:00:00'"],
  );
  check(
    !isReadOnly('SELECT 1 INTO t') && isReadOnly("SELECT ' into '") && !isReadOnly('DELETE FROM t'),
    'read-only statements',
  );
});

unit('only statements that change nothing are run again for their rows', async () => {
  const repeatable = ['SELECT 1', '-- all\nWITH a AS (SELECT 1) SELECT * FROM a', 'VALUES (1)', '/* x */ SHOW CUBES'];
  const others = ['INSERT INTO t VALUES (1) RETURNING a', 'EXPLAIN ANALYZE SELECT 1', 'DELETE FROM t RETURNING a', 'SHOWN'];
  equal(repeatable.filter(isRepeatable), repeatable);
  equal(others.filter(isRepeatable), []);
});

unit('saved queries have names that differ, and none is lost by an import', async () => {
  const one = { name: 'Top shops', sql: 'SELECT 1' };
  const two = { name: 'Days 10', sql: 'SELECT country FROM sales' };
  const three = { name: 'Days 9', sql: 'SELECT 3' };
  equal(nameFault([one], ' top  SHOPS ')?.includes('“Top shops”'), true, 'a name that is taken');
  equal([nameFault([one], 'top shops', 'Top shops'), nameFault([one], 'Top'), nameFault([], ' ')], [
    null,
    null,
    'Give it a name.',
  ]);
  const long = 'x'.repeat(MAX_NAME_CHARS);
  equal(freeName([{ ...one, name: long }], long), `${'x'.repeat(MAX_NAME_CHARS - 4)} (2)`);
  const renamed = { ...three, name: 'top shops' };
  const secret = { name: 'Secret', sql: "CREATE USER a Password 'b'" };
  const merged = mergeSaved([one], [one, two, renamed, secret]);
  equal(merged, {
    queries: [one, two, { ...renamed, name: 'top shops (2)' }],
    added: 2,
    renamed: 1,
    known: 1,
    secret: 1,
  });
  equal(mergeSaved(merged.queries, [one, two, renamed]).added, 0, 'the same file once more');
  equal(searchSaved([one, two, three], ' ').map((query) => query.name), ['Days 9', 'Days 10', 'Top shops']);
  equal(searchSaved([one, two, three], 'days Sales'), [two]);
});

unit('files of saved queries are read, and others are refused with the reason', async () => {
  const queries = [
    { name: 'One', sql: "SELECT 'ü'" },
    { name: 'Two', sql: '' },
  ];
  equal(readSaved(JSON.stringify(savedDocument(queries))), { queries, unreadable: 0 });
  const mixed = [...queries, null, 4, {}, { name: ' ', sql: 'SELECT 1' }, { name: 'one', sql: 'SELECT 5', more: 1 }];
  equal(readSaved(JSON.stringify(savedDocument(mixed as typeof queries))), {
    queries: [...queries, { name: 'one (2)', sql: 'SELECT 5' }],
    unreadable: 4,
  });
  const reason = (text: string) => {
    try {
      readSaved(text);
      return null;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
  for (const text of ['', '{', 'null', '7', '[]', '{"queries": []}', '{"nyala_queries": 1}']) {
    check(reason(text)?.includes('no list of saved queries'), `refused: ${text}`);
  }
  check(reason('{"nyala_queries": 2, "queries": []}')?.includes('newer console'), 'a higher version');
});

unit('entries of a new password are compared', async () => {
  const fieldOf = (current: string, next: string, again: string) => passwordFault({ current, next, again })?.field ?? null;
  equal(
    [fieldOf('', 'b', 'b'), fieldOf('a', '', ''), fieldOf('a', 'a', 'a'), fieldOf('a', 'b', 'B'), fieldOf('a', 'b', 'b')],
    ['current', 'next', 'next', 'again', null],
  );
  equal(fieldOf('a', 'SCRAM-SHA-256$4096:x', 'SCRAM-SHA-256$4096:x'), 'next', 'a verifier in the place of a password');
  equal(shownStatement('a"b'), `ALTER USER "a""b" PASSWORD '********'`);
});

const AGGREGATION = { cube: null, other_cubes: [{ cube: 'public.other', reason: 'too bad' }] };

unit('the end of an answer tells whether there is more, and how it was made', async () => {
  const route = {
    query: 71,
    ready_plan: true,
    result_cache: false,
    answered_from: 'public.revenue',
    nodes: null,
    aggregations: [
      {
        cube: 'public.revenue',
        cuboids: [['d_year', 'upper(c)'], []],
        segments: 11,
        joined: ['part', 'supplier'],
        from_tables: 'lo_orderdate 19971215 to 19971231',
        lacking: null,
        live: true,
        estimated_rows: 85,
        other_cubes: [],
      },
      AGGREGATION,
    ],
    phases_us: { planning: 31, queued: 0, running: 212, sending: 9 },
    bytes_read: { memory: 1, disk: 2, store: 3 },
    peak_memory_bytes: 81920,
  };
  const stream = new ResultStream();
  stream.push(
    `{"columns":[{"name":"a","type":"bigint","nullable":false}],"rows":[\n[1]],"row_count":1,"elapsed_ms":0.25,"more":true,"route":${JSON.stringify(route)}}\n`,
  );
  const end = stream.end().summary;
  equal([end?.more, end?.elapsedMs, end?.route], [true, 0.25, readRoute(route)]);
  const [hit, miss] = readRoute(route).blocks;
  equal(
    [hit?.cube, hit?.cuboids, hit?.segments, hit?.joined, hit?.estimatedRows, hit?.isLive],
    ['public.revenue', ['(d_year, upper(c))', '()'], 11, ['part', 'supplier'], 85, true],
  );
  equal([miss?.cube, miss?.misses[0]?.reason, readRoute(route).missed], [null, 'too bad', true]);
  equal(readRoute(route).phases[2], { name: 'running', us: 212 });
});

unit('shapes that missed get their statements of the log', async () => {
  equal([...wordsOf(`SELECT t."Odd x", sum(t.a) FROM public.t WHERE b = 'from'`)], ['Odd x', 'sum', 'a', 't', 'b']);
  const shape = (query: string, missed_ms: string) => ({
    query,
    missed_ms,
    misses: '2',
    asked: '3',
    reason: 'cube `c`: no',
    last_missed: '2026-11-28T10:00:00Z',
    last_asked: '2026-11-28T10:00:01Z',
    answered_from: null,
  });
  const misses = [
    shape('SELECT t.kind, sum(t.a) FROM public.t JOIN public.s ON s.shop = t.shop WHERE t.b = ? GROUP BY t.kind', '9'),
    { ...shape('SELECT sum(t.a) FROM public.t', '5'), answered_from: 'public.c ()' },
    shape('SELECT max(t.a) FROM public.t', '1'),
  ];
  const log = [
    { query: 'SELECT kind, sum(a) AS total FROM t JOIN s USING (shop) WHERE b = 2 GROUP BY kind', took_us: '2000' },
    { query: 'SELECT kind, sum(a) FROM t JOIN s USING (shop) WHERE b = 3 GROUP BY kind', took_us: '3000' },
    { query: 'SELECT sum(x.a) / 2 AS half FROM t AS x', took_us: '4000' },
    { query: 'SELECT max(a) AS profiled_rows FROM t', took_us: '9000' },
    { query: 'SELECT max(a), v, w, x, y, z FROM t', took_us: '9000' },
  ];
  const found = missedShapes(misses, log);
  equal(
    found.map(({ statement, slowestMs, answeredFrom }) => [statement, slowestMs, answeredFrom]),
    [
      [log[0]?.query ?? '', 3, null],
      [log[2]?.query ?? '', 4, 'public.c ()'],
      [null, null, null],
    ],
  );
  equal(finderOf(found)('SELECT min(a) FROM t'), null);
});

unit('progress is a share of an estimate', async () => {
  equal([percentOf(50, 200), percentOf(300, 200), percentOf(5, null), percentOf(null, 9)], [25, 100, null, null]);
});

unit('results are written for other programs', async () => {
  const columns = [column('a', 'bigint'), column('a', 'text')];
  const rows = [
    ['9007199254740993', 'x,"y"\n|'],
    [null, ''],
  ];
  equal(writeRows('csv', columns, rows), 'a,a\n9007199254740993,"x,""y""\n|"\n,""\n');
  equal(writeRows('tsv', columns, rows), 'a\ta\n9007199254740993\tx,"y" |\n\t\n');
  check(
    writeRows('json', columns, rows).includes('{"a": 9007199254740993, "a_2": "x,\\"y\\"\\n|"}'),
    'JSON keeps all digits',
  );
  check(writeRows('markdown', columns, rows).includes('| 9007199254740993 | x,"y"<br>\\| |'), 'Markdown escapes');
  equal(groupDigits('-1234567.125'), '-1\u2009234\u2009567.125');
});

unit('answers are compared without regard to order and last digits', async () => {
  const columns = [column('k', 'text'), column('v', 'double precision'), column('n', 'bigint')];
  const one = [
    ['a', '1.0000000000001', '1'],
    ['b', '2', '9007199254740993'],
  ];
  const other = [
    ['b', '2', '9007199254740993'],
    ['a', '1', '1'],
  ];
  check(compareRows(columns, one, other).equal, 'equal rows');
  check(
    !compareRows(columns, one, [
      ['b', '2', '9007199254740992'],
      ['a', '1', '1'],
    ]).equal,
    'integers are exact',
  );
  check(!compareRows(columns, one, one.slice(1)).equal, 'a row less');
});

unit('a cuboid without hits is unused only if its cube is switched on', async () => {
  const rows = [
    { cuboid: '(a)', bytes: '10', hits: '3' },
    { cuboid: '(b)', bytes: '10', hits: '0' },
    { cuboid: '(c)', bytes: '0', hits: '0' },
  ];
  const reasons = (isOff: boolean) => cuboidsOf(rows).map((cuboid) => idleReason(cuboid, isOff));
  equal(reasons(false), [null, 'not used', 'not built']);
  equal(reasons(true), [null, 'switched off', 'not built']);
});

unit('plans, cuboids, segments and charts are described', async () => {
  const [root] = parsePlan(
    'SortExec: expr=[a], metrics=[output_rows=5, elapsed_compute=1.5ms]\n  DataSourceExec: file, metrics=[elapsed_compute=20µs]\n',
  );
  equal(
    [root?.operator, root?.detail, root?.computeMs, root?.children[0]?.computeMs],
    ['SortExec', 'expr=[a]', 1.5, 0.02],
  );
  equal(dimensionsOf("(a, date_trunc('month', day))"), ['a', "date_trunc('month', day)"]);
  equal(segmentsOf([{ range: '[19980101, 19980201)', state: 'ready' }])[0]?.weight, 31);
  equal(segmentsOf([{ range: 'written at 3 to 12', state: 'ready' }])[0]?.weight, 10);
  const columns = [column('year', 'integer'), column('name', 'text'), column('total', 'bigint')];
  const rows = [
    ['1997', 'a', '1'],
    ['1998', 'b', '2'],
  ];
  const wish = defaultChart(columns, rows);
  equal(wish, { kind: 'line', x: 0, values: [2] });
  check(wish && 'series' in chartOption(wish, columns, rows, { text: '', line: '', series: [] }), 'a chart has series');
  equal(defaultChart([column('a', 'text')], [['x']]), null);
});
