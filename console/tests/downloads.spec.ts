// Whole results as files.

import { readFileSync } from 'node:fs';
import { check, equal, eventually, test, type World } from './harness';

const MANY = 'SELECT n, n * 7 AS seven FROM generate_series(1, 5000) n ORDER BY n';
/** Random digits do not become less by compression. */
const LARGE = 'SELECT n, random() AS r FROM generate_series(1, 300000) n';

async function choose({ page }: World, format: string): Promise<void> {
  await page.getByRole('combobox', { name: 'Format' }).selectOption(format);
}

/** Downloads the chosen format into the server's folder, and gives the path. */
async function download({ page, server }: World, expectedName: string): Promise<string> {
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download', exact: true }).click(),
  ]);
  equal(file.suggestedFilename(), expectedName);
  const path = `${server.folder}/downloads/${expectedName}`;
  await file.saveAs(path);
  return path;
}

const result = ({ page }: World) => page.getByRole('region', { name: 'Result' });

test('download: files of the server have all rows, not only those that are shown', async (world) => {
  const { page, runSql, keep, server, shot } = world;
  await keep('maxRows', 100);
  await runSql(MANY);
  await page.getByText('there is more').waitFor();
  await choose(world, 'all-parquet');
  check(await page.getByRole('button', { name: 'Copy all' }).isDisabled(), 'a file cannot be copied');
  const parquet = await download(world, 'result.parquet');
  await result(world).getByText(/[KM]iB downloaded/).waitFor();
  await shot('download');
  const rows = await server.sql(`SELECT count(*), min(n), max(seven) FROM read_parquet('${parquet}')`);
  equal(rows, [[5000, 1, 35_000]]);
  await choose(world, 'all-csv');
  const lines = readFileSync(await download(world, 'result.csv'), 'utf8').trimEnd().split('\n');
  equal([lines.length, lines[0], lines.at(-1)], [5001, 'n,seven', '5000,35000']);
  await choose(world, 'csv');
  const shown = readFileSync(await download(world, 'result.csv'), 'utf8').trimEnd().split('\n');
  equal(shown.length, 101, 'lines of what is shown');
  await result(world).getByText('100 rows downloaded, there is more').waitFor();
});

test('download: settings go with it', async (world) => {
  const { runSql, keep } = world;
  await keep('settings', "timezone = 'Europe/Oslo'");
  await runSql('SHOW timezone');
  await result(world).getByText('Europe/Oslo').waitFor();
  await choose(world, 'all-csv');
  const text = readFileSync(await download(world, 'result.csv'), 'utf8');
  check(text.includes('Europe/Oslo'), `the file: ${text}`);
});

test('download: a type that Parquet lacks is told with advice', async (world) => {
  const { page, runSql, expectRefusals, shot } = world;
  expectRefusals();
  await runSql("SELECT INTERVAL '1 day' AS span");
  await page.getByRole('columnheader', { name: 'span' }).waitFor();
  await choose(world, 'all-parquet');
  await page.getByRole('button', { name: 'Download', exact: true }).click();
  const alert = result(world).getByRole('alert');
  await alert.waitFor();
  const text = await alert.textContent();
  check(
    text?.includes('cannot be written in this format') && text.includes('cast the column to text'),
    `the error is shown: ${text}`,
  );
  await shot('download-refused');
  await choose(world, 'all-csv');
  await download(world, 'result.csv');
  equal(await alert.count(), 0, 'alerts after a download that worked');
});

test('download: a file that breaks off is not saved, and can be asked for again', async (world) => {
  const { page, runSql, keep, proxy, expectRefusals, server } = world;
  expectRefusals();
  await keep('maxRows', 100);
  await runSql(LARGE);
  await page.getByText('there is more').waitFor();
  let files = 0;
  page.on('download', () => {
    files += 1;
  });
  await choose(world, 'all-parquet');
  proxy.cutAfterBytes = 300_000;
  await page.getByRole('button', { name: 'Download', exact: true }).click();
  await result(world).getByRole('alert').getByText('broke off after').waitFor();
  equal(files, 0, 'files that were saved');
  proxy.isDead = true;
  await page.getByRole('button', { name: 'Download', exact: true }).click();
  await result(world).getByRole('alert').getByText('the server does not answer').waitFor();
  equal(files, 0, 'files that were saved');
  [proxy.isDead, proxy.cutAfterBytes] = [false, null];
  const path = await download(world, 'result.parquet');
  equal(await server.sql(`SELECT count(*) FROM read_parquet('${path}')`), [[300_000]]);
});

test('download: the keyboard begins and cancels it', async (world) => {
  const { page, runSql, proxy, expectRefusals } = world;
  expectRefusals();
  await runSql(MANY);
  await page.getByRole('gridcell').first().waitFor();
  const format = page.getByRole('combobox', { name: 'Format' });
  await format.focus();
  await page.keyboard.type('Parquet');
  equal(await format.inputValue(), 'all-parquet');
  proxy.delayMs = 3000;
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await result(world).getByText('Waiting for the file').waitFor();
  equal(await page.evaluate(() => document.activeElement?.textContent?.trim()), 'Cancel download');
  await page.keyboard.press('Enter');
  await result(world).getByText('Download cancelled').waitFor();
  proxy.delayMs = 0;
  await page.getByRole('button', { name: 'Download', exact: true }).waitFor();
});

test('download: a statement that changes something is not run again', async (world) => {
  const { page, runSql, server } = world;
  await server.sql('CREATE TABLE returned (a INT, PRIMARY KEY (a))');
  await runSql('INSERT INTO returned VALUES (1) RETURNING a');
  await page.getByRole('columnheader', { name: 'a', exact: true }).waitFor();
  await choose(world, 'all-parquet');
  await result(world).getByText('Only rows of a query can be asked for again').waitFor();
  check(await page.getByRole('button', { name: 'Download', exact: true }).isDisabled(), 'it is not run again');
  await choose(world, 'csv');
  await eventually(async () =>
    check(await page.getByRole('button', { name: 'Download', exact: true }).isEnabled(), 'what is shown can be saved'),
  );
  equal(await server.sql('SELECT count(*) FROM returned'), [[1]]);
  await server.sql('DROP TABLE returned');
});
