// How files are read, cut into parts and written for the server, without a browser.

import { bytesOf, guessOf, look, openFile } from '../src/lib/chosen-file';
import { guessType, looksLikeKey, tidyNames } from '../src/lib/column-types';
import { type Dialect, guessDialect, rowsOf } from '../src/lib/delimited';
import { rawFields, readJsonLines, renamed } from '../src/lib/json-lines';
import { bodyOf, type LoadPlan, type Part, PART_BYTES, partLabel, partsOf, withFileLine } from '../src/lib/load-parts';
import { createLiveTable } from '../src/lib/sql';
import { check, equal, unit } from './harness';

const CSV: Dialect = { separator: ',', quotes: true, header: true };

function plan(file: Blob, changes: Partial<LoadPlan> = {}): LoadPlan {
  return {
    file,
    kind: 'delimited',
    isGzip: false,
    encoding: 'utf-8',
    dialect: CSV,
    headBytes: 0,
    headLines: 0,
    sources: ['a', 'b'],
    targets: ['a', 'b'],
    ...changes,
  };
}

async function parts(wanted: LoadPlan): Promise<Part[]> {
  const found: Part[] = [];
  for await (const part of partsOf(wanted)) found.push(part);
  return found;
}

async function textOf(part: Part, wanted: LoadPlan): Promise<string> {
  return bodyOf(part, wanted).body.text();
}

/** A file that gives its bytes in pieces of this size, each when it is asked for. */
function streamed(bytes: Uint8Array<ArrayBuffer>, pieceBytes: number, onPull: (bytes: number) => void = () => undefined): Blob {
  const stream = () => {
    let at = 0;
    return new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: (out) => {
        if (at >= bytes.length) return out.close();
        out.enqueue(bytes.slice(at, at + pieceBytes));
        at += pieceBytes;
        onPull(Math.min(at, bytes.length));
      },
    });
  };
  return { size: bytes.length, stream } as unknown as Blob;
}

unit('rows of text are taken apart as the server does', async () => {
  const read = (text: string, cut: Partial<Dialect> = {}, isWhole = true) =>
    [...rowsOf(text, { ...CSV, ...cut }, isWhole)].map(({ line, fields }) => [line, ...fields]);
  equal(read('a,b\n1,2\n'), [[1, 'a', 'b'], [2, '1', '2']]);
  equal(read('a,b'), [[1, 'a', 'b']]);
  equal(read('a,b\nc', {}, false), [[1, 'a', 'b']]);
  equal(read('a,\r\n\n,""\r\n'), [[1, 'a', null], [3, null, '']]);
  equal(read('"a ""b""","x,\ny"\nlast,1\n'), [[1, 'a "b"', 'x,\ny'], [3, 'last', '1']]);
  equal(read('5" pipe;x\n6" pipe;y\n', { separator: ';', quotes: false }), [[1, '5" pipe', 'x'], [2, '6" pipe', 'y']]);
  equal(read('a,"open\nb,c\n', {}, false), []);
});

unit('separator, quotes and header are guessed', async () => {
  const guess = (text: string) => {
    const { separator, quotes, header } = guessDialect(text, true);
    return [separator, quotes, header];
  };
  equal(guess('id,name\n1,"a, b"\n2,"c, d"\n'), [',', true, true]);
  equal(guess('id;price\n1;2,50\n2;3,75\n'), [';', true, true]);
  equal(guess('id\tname\n1\tx, y\n2\tz\n'), ['\t', true, true]);
  equal(guess('a|b|c\n1|2|3\n'), ['|', true, true]);
  equal(guess('1,2\n3,4\n'), [',', true, false]);
  equal(guess('name,name\nx,y\n'), [',', true, false], 'names that are not different');
  equal(guess('part;size\n5" pipe;1\nelbow;2\nT;3\n'), [';', false, true], 'a quote that is an inch');
  equal(guess('one\ntwo\n'), [',', true, true]);
});

unit('types and names of columns are guessed', async () => {
  const cases: [string, (string | null)[]][] = [
    ['BIGINT', ['0', '-7', null, '999999999999999999']],
    ['NUMERIC(38, 0)', ['1', '9223372036854775808']],
    ['TEXT', ['007', '8']],
    ['DOUBLE PRECISION', ['1', '-2.5', '.5', '1e-7']],
    ['BOOLEAN', ['true', 'FALSE']],
    ['DATE', ['2026-01-31']],
    ['TEXT', ['2026-13-31']],
    ['TIMESTAMP', ['2026-01-31', '2026-01-31 12:00', '2026-01-31T12:00:00.123456']],
    ['TIMESTAMPTZ', ['2026-01-31T12:00:00Z', '2026-01-31 12:00:00+02']],
    ['TIME', ['12:00:00']],
    ['UUID', ['6f1c0b1e-2c57-4f0b-9d3f-0a1b2c3d4e5f']],
    ['TEXT', ['', '1']],
    ['TEXT', [null]],
    ['TEXT', []],
  ];
  for (const [type, values] of cases) equal(guessType(values), type, String(values));
  equal(tidyNames(['Order ID', 'order-id', '', ' Größe (cm) ', '2024']), ['order_id', 'order_id_2', 'column_3', 'größe_cm', '_2024']);
  check(looksLikeKey('order_id', 'BIGINT', ['1', '2']) && !looksLikeKey('order_id', 'BIGINT', ['1', '1']), 'different values');
  check(!looksLikeKey('paid', 'TEXT', ['a', 'b']) && !looksLikeKey('id', 'BIGINT', ['1', null]), 'no keys');
});

unit('lines of JSON keep every digit', async () => {
  const line = '{"id": 9007199254740993, "a\\"b": "x,}\\"", "list": [1, {"k": "]"}], "no": null, "f":1.50 }';
  equal(rawFields(line), [
    ['id', '9007199254740993'],
    ['a"b', '"x,}\\""'],
    ['list', '[1, {"k": "]"}]'],
    ['no', 'null'],
    ['f', '1.50'],
  ]);
  for (const wrong of ['[1]', '{"a": 1', '{"a" 1}', '{"a": }', '{"a": 1,}', '{"a": 1} {"a": 2}', '{a: 1}', '', '7']) {
    equal(rawFields(wrong), null, wrong);
  }
  equal(rawFields('{}'), []);
  equal(
    renamed('{"id": 9007199254740993, "b": 1, "c": "x"}', new Map([['id', 'key'], ['b', null]])),
    '{"key":9007199254740993,"c":"x"}',
  );
  const read = readJsonLines(
    '{"id": 1, "tags": ["a"], "ratio": 1}\n\n{"id": 2, "code": "007", "ratio": 0.5}\n{"o": {"k": 1}, "n": [1, 2]}\nnonsense\n',
    true,
    100,
  );
  equal(read.names, ['id', 'tags', 'ratio', 'code', 'o', 'n']);
  equal(read.types, ['BIGINT', 'TEXT[]', 'DOUBLE PRECISION', 'TEXT', '', 'BIGINT[]']);
  equal(read.rows[1], ['2', null, '0.5', '007', null, null]);
  equal(read.problem, 'line 5 is no JSON object: each line must hold one, such as {"id": 1}');
});

unit('a file is cut at the same places however it is read', async () => {
  const lines = Array.from({ length: 150_000 }, (_, at) => `${at},"text ${at}\nwith an end of a line, and more of it to fill"\n`);
  const bytes = new TextEncoder().encode(`a,b\n${lines.join('')}`);
  const whole = await parts(plan(new Blob([bytes]), { headBytes: 4, headLines: 1 }));
  check(whole.length > 2, `${whole.length} parts`);
  for (const pieceBytes of [65_536, 1_000_003]) {
    const cut = await parts(plan(streamed(bytes, pieceBytes), { headBytes: 4, headLines: 1 }));
    equal(
      cut.map(({ from, to, firstLine }) => [from, to, firstLine]),
      whole.map(({ from, to, firstLine }) => [from, to, firstLine]),
      `pieces of ${pieceBytes}`,
    );
  }
  equal([whole[0]?.from, whole.at(-1)?.to], [4, bytes.length]);
  equal(new Set(whole.map((part) => partLabel('label', part))).size, whole.length, 'labels');
  let all = '';
  for (const part of whole) {
    const text = await textOf(part, plan(new Blob()));
    check(text.startsWith('a,b\n'), 'each part names the columns');
    all += text.slice(4);
    // Two lines a row, and the head before them.
    equal(part.firstLine, 2 + 2 * Number(/^\d+/.exec(text.slice(4))?.[0]), 'the line of the first row');
  }
  check(all === lines.join(''), 'the parts are the file');
});

unit('of a large file only a part is read ahead', async () => {
  const pieceBytes = 65_536;
  const bytes = new TextEncoder().encode('1,some text that fills the line\n'.repeat(1 << 20));
  let pulled = 0;
  const file = streamed(bytes, pieceBytes, (read) => {
    pulled = read;
  });
  let seen = 0;
  for await (const part of partsOf(plan(file))) {
    check(pulled <= part.to + PART_BYTES, `${pulled} bytes were read for a part up to ${part.to}`);
    seen += 1;
    if (seen === 3) break;
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  check(pulled < bytes.length / 2, 'reading ends with the load');
});

unit('rows of other dialects are sent as CSV, each on its line', async () => {
  const encoded = new Uint8Array([...'name;n;rest\nÄpfel, rot;3;x\n\n;;""\nzu viel;1;2;3\n'].map((letter) => letter.charCodeAt(0)));
  const wanted = plan(new Blob([encoded]), {
    encoding: 'windows-1252',
    dialect: { separator: ';', quotes: true, header: true },
    headBytes: 12,
    headLines: 1,
    sources: ['name', 'n', 'rest'],
    targets: ['name', 'Number, "n"', null],
  });
  const [part] = await parts(wanted);
  check(part, 'a part');
  const { body, linesBefore, misfits } = bodyOf(part, wanted);
  equal(await body.text(), 'name,"Number, ""n"""\n"Äpfel, rot",3\n\n,\n');
  equal(misfits, [{ line: 5, reason: '4 fields, not 3' }]);
  equal(withFileLine('line 4, column `n`: `x` is not a value of type Int64', linesBefore), 'line 4, column `n`: `x` is not a value of type Int64');
  equal(withFileLine('more than 2 rows cannot be read; the last at line 7: 1 fields, not 2', 100), 'more than 2 rows cannot be read; the last at line 107: 1 fields, not 2');
  equal(withFileLine('table `public.line 3` does not exist', 9), 'table `public.line 3` does not exist');
  const plain = plan(new Blob(['5" pipe,1\n']), { dialect: { separator: ',', quotes: false, header: false } });
  const [inches] = await parts(plain);
  equal(inches && (await textOf(inches, plain)), 'a,b\n"5"" pipe",1\n');
  const json = plan(new Blob(['{"a": 1, "b": 2}\n']), { kind: 'json', targets: ['x', null] });
  const [line] = await parts(json);
  equal(line && (await textOf(line, json)), '{"x":1}\n');
});

unit('a file is looked into, and what cannot be read is refused with advice', async () => {
  const csv = await openFile(new File(['\ufeffOrder ID,day\r\n1,2026-01-31\r\n2,2026-02-01\r\n'], 'orders.csv'));
  check(csv.kind === 'delimited', 'separated values');
  const found = look(csv, guessOf(csv));
  equal(found.columns, [
    { source: 'Order ID', name: 'order_id', type: 'BIGINT', isKey: true },
    { source: 'day', name: 'day', type: 'DATE', isKey: false },
  ]);
  equal([found.headBytes, found.headLines, found.rows.length], [3 + 14, 1, 2]);
  const zipped = new Blob(['a\tb\n1\t2\n']).stream().pipeThrough(new CompressionStream('gzip'));
  const gzip = await openFile(new File([await new Response(zipped).blob()], 'rows.tsv.gz'));
  check(gzip.kind === 'delimited' && gzip.isGzip, 'compressed');
  equal(look(gzip, guessOf(gzip)).rows, [['1', '2']]);
  const refusals: [BlobPart, string, string][] = [
    ['', 'empty.csv', 'is empty'],
    ['PK\u0003\u0004rest', 'book.xlsx', 'a spreadsheet or a ZIP archive'],
    ['[{"id": 1}]', 'rows.json', 'is one JSON array'],
    [new Uint8Array([0xff, 0xfe, 0x61, 0]), 'wide.csv', 'text in UTF-16'],
    ['a\u0000b', 'program', 'is no text'],
    ['PAR1 cut off', 'part.parquet', 'does not end with PAR1'],
    [new Uint8Array([0x1f, 0x8b, 8, 0, 1, 2]), 'cut.csv.gz', 'cannot be read'],
  ];
  for (const [content, name, words] of refusals) {
    const message = await openFile(new File([content], name)).then(
      () => 'it was opened',
      (error: Error) => error.message,
    );
    check(message.includes(words), `${name}: ${message}`);
  }
  const reader = bytesOf(new Blob(['ab']), false);
  equal((await reader.read()).value?.length, 2);
});

unit('a live table is made with quoted names and its key', async () => {
  const columns = [
    { name: 'id', type: ' BIGINT ', isKey: true },
    { name: 'Order', type: 'NUMERIC(10, 2)', isKey: true },
    { name: 'day', type: 'DATE', isKey: false },
  ];
  equal(
    createLiveTable('public.orders', columns),
    'CREATE LIVE TABLE public.orders (\n  id BIGINT,\n  "Order" NUMERIC(10, 2),\n  day DATE,\n  PRIMARY KEY (id, "Order")\n)',
  );
  equal(createLiveTable('t', columns.slice(2)), 'CREATE LIVE TABLE t (\n  day DATE\n)');
});
