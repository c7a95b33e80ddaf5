// Loading a file of this machine into a live table.

import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { check, equal, eventually, test } from './harness';

const DRINKS = 'id,Product Name,price,day\n1,"tea, green",2.50,2026-01-31\n2,milk,,2026-02-01\n';

async function choose(page: Page, name: string, content: string | Buffer): Promise<void> {
  await page.locator('input[type=file]').setInputFiles({
    name,
    mimeType: 'application/octet-stream',
    buffer: Buffer.from(content as string),
  });
  await page.getByRole('region', { name: 'Columns' }).waitFor();
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
const value = (page: Page, label: string) => page.getByLabel(label, { exact: true }).inputValue();

/** Rows with this number of columns of text each, more than one part of them. */
function manyRows(count: number): string {
  const lines = Array.from({ length: count }, (_, at) => `${at},some text that makes the row longer than it would be ${at}\n`);
  return `id,name\n${lines.join('')}`;
}

test('load a file: a CSV file becomes a table with the chosen types and key, once', async ({ page, open, server, shot }) => {
  await open('#/tables');
  await page.getByRole('link', { name: 'Load a file' }).click();
  await choose(page, 'drinks.csv', DRINKS);
  equal(await value(page, 'Type of id'), 'BIGINT');
  equal(await value(page, 'Name of Product Name'), 'product_name');
  equal(await value(page, 'Type of price'), 'DOUBLE PRECISION');
  equal(await value(page, 'Type of day'), 'DATE');
  check(await page.getByLabel('id is part of the key').isChecked(), 'the key is guessed');
  await page.getByRole('gridcell', { name: 'tea, green' }).waitFor();
  await page.getByLabel('Type of price').fill('NUMERIC(10, 2)');
  await page.getByLabel('Name of day').fill('Sold on');
  const statement = page.getByRole('region', { name: 'Table' }).locator('pre');
  const shown = async () => {
    const all = (await statement.textContent()) ?? '';
    check(all.includes('price NUMERIC(10, 2)'), `shown: ${all}`);
    return all;
  };
  const text = await eventually(shown);
  check(text.includes('CREATE LIVE TABLE public.drinks') && text.includes('"Sold on" DATE'), `shown: ${text}`);
  check(text.includes('PRIMARY KEY (id)'), `shown: ${text}`);
  await shot('load-file-columns');
  await page.setViewportSize({ width: 390, height: 844 });
  const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  check((await overflow()) <= 0, `${await overflow()} pixels too wide`);
  await page.setViewportSize({ width: 1280, height: 860 });

  await button(page, 'Create the table and load').click();
  const load = page.getByRole('region', { name: 'Load' });
  await load.getByText(/2 rows loaded into public\.drinks/).waitFor();
  const rows = () => server.sql('SELECT id, product_name, price, "Sold on" FROM drinks ORDER BY id');
  equal(await rows(), [
    [1, 'tea, green', 2.5, '2026-01-31'],
    [2, 'milk', null, '2026-02-01'],
  ]);
  await server.sql('DELETE FROM drinks WHERE id = 2');
  await button(page, 'Load').click();
  await load.getByText(/was loaded before under this label: 2 rows/).waitFor();
  equal((await rows()).length, 1, 'rows after the same load again');
  await page.getByLabel('Label of the load').fill('another one');
  await button(page, 'Load').click();
  await load.getByText(/2 rows loaded/).waitFor();
  equal((await rows()).length, 2, 'rows after a load with another label');
  await load.getByRole('link', { name: 'First rows in the editor' }).click();
  await page.getByRole('textbox', { name: 'SQL' }).getByText('public.drinks').waitFor();
  await server.sql('DROP TABLE drinks');
});

test('load a file: an error names line and column of the file, and some rows may be left out', async (world) => {
  const { page, open, server, expectRefusals, shot } = world;
  expectRefusals();
  await open('#/load-file');
  const lines = Array.from({ length: 7000 }, (_, at) => `${at},name ${at}\n`);
  await choose(page, 'people.csv', `id,name\n${lines.join('')}x,nobody\n7001,last\n`);
  await button(page, 'Create the table and load').click();
  const load = page.getByRole('region', { name: 'Load' });
  await load.getByRole('alert').getByText('line 7002, column `id`: `x`').waitFor();
  await load.getByText('No row was written.').waitFor();
  await shot('load-file-failed');
  equal(await server.sql('SELECT count(*) FROM people'), [[0]]);
  await page.getByLabel('Rows that may be left out').fill('1');
  await button(page, 'Load').click();
  await load.getByText(/7\s001 rows loaded.*1 row left out/).waitFor();
  await load.getByText(/line 7002, column id: `x`/).waitFor();
  equal(await server.sql('SELECT count(*) FROM people'), [[7001]]);
  await server.sql('DROP TABLE people');
});

test('load a file: the new table of a load that failed is dropped, and made with other types', async (world) => {
  const { page, open, server, expectRefusals } = world;
  expectRefusals();
  await open('#/load-file');
  await choose(page, 'codes.csv', 'code,n\nA1,1\nB2,2\n');
  await page.getByLabel('Type of code').fill('BIGINT');
  await button(page, 'Create the table and load').click();
  await page.getByRole('alert').getByText('line 2, column `code`').waitFor();
  await page.getByLabel('Type of code').fill('TEXT');
  await button(page, 'Drop the new table').click();
  await page.getByRole('dialog').getByText('DROP TABLE IF EXISTS public.codes').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await button(page, 'Create the table and load').click();
  await page.getByText(/2 rows loaded into public\.codes/).waitFor();
  equal(await server.sql('SELECT code FROM codes ORDER BY n'), [['A1'], ['B2']]);
  await page.getByLabel('Name', { exact: true }).fill('sales');
  await button(page, 'Create the table and load').click();
  await page.getByRole('alert').getByText('already exists').waitFor();
  await server.sql('DROP TABLE codes');
});

test('load a file: another encoding and separator, into a table that is there', async ({ page, open, server }) => {
  await server.sql('CREATE TABLE fruit (name TEXT, size INT, PRIMARY KEY (name))');
  await open('#/tables/public/fruit');
  await page.getByRole('link', { name: 'Load a file into it' }).click();
  await choose(page, 'obst.csv', Buffer.from('Name;Größe;Rest\nÄpfel;3;x\nBirnen, reif;;y\n', 'latin1'));
  equal(await value(page, 'Separator'), ';');
  equal(await value(page, 'Encoding'), 'windows-1252');
  equal(await value(page, 'Live table'), 'public.fruit');
  // The columns of the table may arrive after the file is read.
  await eventually(async () => equal(await value(page, 'Column for Name'), 'name'));
  equal(await value(page, 'Column for Rest'), '');
  await page.getByLabel('Column for Größe').selectOption('size');
  await button(page, 'Load').click();
  await page.getByText(/2 rows loaded into public\.fruit/).waitFor();
  equal(await server.sql('SELECT name, size FROM fruit ORDER BY name'), [
    ['Birnen, reif', null],
    ['Äpfel', 3],
  ]);
  await server.sql('DROP TABLE fruit');
});

test('load a file: JSON lines, compressed, with all digits', async ({ page, open, server }) => {
  await open('#/load-file');
  await choose(page, 'events.jsonl.gz', gzipSync('{"id":9007199254740993,"Kind":"a","tags":["x","y"]}\n{"id":2,"tags":null}\n'));
  equal(await value(page, 'Name of Kind'), 'kind');
  equal(await value(page, 'Type of tags'), 'TEXT[]');
  const [first] = await page.getByRole('gridcell').allTextContents();
  equal(first?.replaceAll('\u2009', '').trim(), '9007199254740993');
  await button(page, 'Create the table and load').click();
  await page.getByText(/2 rows loaded into public\.events/).waitFor();
  equal(await server.sql('SELECT CAST(id AS TEXT), kind, tags[2] FROM events ORDER BY id DESC'), [
    ['9007199254740993', 'a', 'y'],
    ['2', null, null],
  ]);
  await server.sql('DROP TABLE events');
});

test('load a file: Parquet has its columns from the file', async ({ page, open, server }) => {
  const query = 'SELECT id, kind, day, CAST(amount AS NUMERIC(12, 2)) AS price, ARRAY[id, 1] AS pair FROM sales WHERE id <= 100';
  const path = `/api/v1/query?${new URLSearchParams({ sql: query, format: 'parquet' })}`;
  const file = Buffer.from(await (await fetch(`${server.url}${path}`)).arrayBuffer());
  await open('#/load-file');
  await choose(page, 'part.parquet', file);
  const types = ['id', 'kind', 'day', 'price', 'pair'].map((name) => value(page, `Type of ${name}`));
  equal(await Promise.all(types), ['BIGINT', 'TEXT', 'DATE', 'NUMERIC(12, 2)', 'BIGINT[]']);
  await page.getByText('of 100').waitFor();
  await page.getByLabel('id is part of the key').check();
  await button(page, 'Create the table and load').click();
  await page.getByText(/100 rows loaded into public\.part/).waitFor();
  const both = 'SELECT count(*), sum(price) FROM part UNION ALL SELECT count(*), sum(amount) FROM sales WHERE id <= 100';
  const [one, other] = await server.sql(both);
  equal(one?.map(Number), other?.map(Number), 'rows and their sum');
  await server.sql('DROP TABLE part');
});

test('load a file: a load that the server breaks off goes on where it was', async (world) => {
  const { page, open, server, proxy, expectRefusals } = world;
  expectRefusals();
  const count = 160_000;
  await open('#/load-file');
  await choose(page, 'many.csv', manyRows(count));
  proxy.delayMs = 700;
  // A table without a key would keep a row twice.
  await page.getByLabel('id is part of the key').uncheck();
  await button(page, 'Create the table and load').click();
  await page.getByRole('progressbar').waitFor();
  await page.getByText(/4\.\d+ MiB of/).waitFor();
  proxy.isDead = true;
  const load = page.getByRole('region', { name: 'Load' });
  await load.getByRole('alert').getByText('the server does not answer').waitFor();
  await load.getByText(/are in public\.many and stay/).waitFor();
  proxy.isDead = false;
  proxy.delayMs = 0;
  await button(page, 'Go on').click();
  await load.getByText(/rows loaded into public\.many/).waitFor({ timeout: 60_000 });
  equal(await server.sql('SELECT count(*), count(DISTINCT id) FROM many'), [[count, count]]);
  // The same file from its beginning: its parts are known by their labels.
  const label = await value(page, 'Label of the load');
  await choose(page, 'many.csv', manyRows(count));
  await page.getByLabel('a live table that is there').check();
  await page.getByLabel('Live table', { exact: true }).selectOption('public.many');
  await page.getByLabel('Label of the load').fill(label);
  await button(page, 'Load').click();
  await load.getByText(/was loaded before under this label: 160\s000 rows/).waitFor({ timeout: 60_000 });
  equal(await server.sql('SELECT count(*) FROM many'), [[count]]);
  await server.sql('DROP TABLE many');
});

test('load a file: it goes on while another screen is open, and is cancelled', async ({ page, open, server, proxy, expectRefusals }) => {
  expectRefusals();
  await open('#/load-file');
  await choose(page, 'slow.csv', manyRows(160_000));
  proxy.delayMs = 1500;
  await button(page, 'Create the table and load').click();
  await page.getByRole('progressbar').waitFor();
  await page.getByRole('link', { name: 'SQL', exact: true }).click();
  const works = page.getByRole('region', { name: 'Statements in the background' });
  await works.getByText('load a file into public.slow').waitFor();
  await works.getByRole('link', { name: 'Progress' }).click();
  await button(page, 'Cancel').click();
  await page.getByText('Cancelled.').waitFor();
  proxy.delayMs = 0;
  await eventually(async () => equal(await works.count(), 0, 'works'));
  await button(page, 'Drop the new table').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await eventually(async () => {
    const left = await server.sql("SELECT count(*) FROM information_schema.tables WHERE table_name = 'slow'");
    equal(left, [[0]]);
  });
});

test('load a file: dropped on any screen', async ({ page, open }) => {
  await open('#/cubes');
  await page.getByRole('link', { name: 'takings', exact: true }).waitFor();
  const files = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(['a\tb\n1\tx\n'], 'dropped.tsv'));
    transfer.items.add(new File(['a\n1\n'], 'other.csv'));
    return transfer;
  });
  await page.dispatchEvent('main', 'dragover', { dataTransfer: files });
  await page.getByText('Drop the file to load it').waitFor();
  await page.dispatchEvent('main', 'drop', { dataTransfer: files });
  await page.getByRole('heading', { name: 'Load a file' }).waitFor();
  await page.getByText('Of 2 files dropped.tsv is taken').waitFor();
  equal(await value(page, 'Separator'), '\t');
  equal(await value(page, 'Name of b'), 'b');
  equal(await page.getByText('Drop the file to load it').count(), 0);
});

test('load a file: files that cannot be read say why', async ({ page, open }) => {
  await open('#/load-file');
  const input = page.locator('input[type=file]');
  for (const [name, content, words] of [
    ['book.xlsx', 'PK\u0003\u0004', 'a spreadsheet or a ZIP archive'],
    ['rows.json', '[{"id": 1}]', 'is one JSON array'],
    ['nothing.csv', '', 'is empty'],
  ] as const) {
    await input.setInputFiles({ name, mimeType: 'application/octet-stream', buffer: Buffer.from(content) });
    await page.getByRole('alert').getByText(words).waitFor();
  }
  await choose(page, 'open.csv', 'a,b\n1,2\n');
  equal(await page.getByRole('alert').count(), 0);
  await page.getByLabel('Load a', { exact: true }).uncheck();
  await page.getByLabel('Load b', { exact: true }).uncheck();
  await page.getByText('load one column at least').waitFor();
  check(await button(page, 'Create the table and load').isDisabled(), 'nothing to be loaded');
});

test('load a file: all of it by the keyboard', async ({ page, open, server }) => {
  // Waited for from the beginning: Playwright needs some time until it hears of choosers.
  const chooser = page.waitForEvent('filechooser');
  await open('#/load-file');
  await button(page, 'Choose a file').focus();
  await page.keyboard.press('Enter');
  await (await chooser).setFiles({ name: 'keys.csv', mimeType: 'text/csv', buffer: Buffer.from('id,n\n1,2\n') });
  await page.getByRole('region', { name: 'Columns' }).waitFor();
  const reached: string[] = [];
  for (let at = 0; at < 60; at += 1) {
    await page.keyboard.press('Tab');
    const name = await page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent?.trim());
    reached.push(name ?? '');
    if (name === 'Create the table and load') break;
  }
  check(reached.includes('Type of n') && reached.includes('id is part of the key'), `reached: ${reached.join(', ')}`);
  equal(reached.at(-1), 'Create the table and load');
  await page.keyboard.press('Enter');
  await page.getByText(/1 row loaded into public\.keys/).waitFor();
  await server.sql('DROP TABLE keys');
});
