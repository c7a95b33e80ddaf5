// Exactness and size of what is shown.

import { check, equal, eventually, test } from './harness';

test('numbers beyond 2^53 are shown with all digits', async ({ page, runSql }) => {
  await runSql(
    'SELECT 9007199254740993 AS big, CAST(12345678901234567890.123456789 AS DECIMAL(38, 9)) AS exact, 18446744073709551615 AS u',
  );
  const cells = page.getByRole('gridcell');
  await cells.first().waitFor();
  const plain = (await cells.allTextContents()).map((text) => text.replaceAll('\u2009', '').trim());
  equal(plain, ['9007199254740993', '12345678901234567890.123456789', '18446744073709551615']);
});

test('a hundred thousand rows fill the grid while they arrive, and the server ends the query then', async (world) => {
  const { page, runSql, proxy, keep, server } = world;
  await keep('maxRows', 100_000);
  await runSql("SELECT n, n * 7 AS seven, 'row ' || n AS name FROM generate_series(1, 200000) n ORDER BY n");
  await page.getByText('there is more').waitFor();
  equal(proxy.delayMs, 0);
  const grid = page.getByRole('grid');
  await grid.focus();
  await page.keyboard.press('Control+End');
  await eventually(async () =>
    check(await page.getByText('row 100000', { exact: true }).isVisible(), 'the last row is seen'),
  );
  check((await page.getByRole('gridcell').count()) < 600, 'only cells that are seen are elements');
  const log = "SELECT status FROM system.query_log WHERE query LIKE 'SELECT n, n * 7 AS seven%'";
  equal(await server.sql(log), [['finished']], 'nothing was cut off by going away');
});

test('two hundred columns and a text of a megabyte are shown', async ({ page, runSql }) => {
  const columns = Array.from({ length: 200 }, (_, at) => `${at} AS c${at}`).join(', ');
  await runSql(`SELECT ${columns}, repeat('ab', 500000) AS large`);
  const grid = page.getByRole('grid');
  await page.getByRole('gridcell').first().waitFor();
  check((await page.getByRole('gridcell').count()) < 60, 'columns out of sight are no elements');
  await grid.focus();
  await page.keyboard.press('End');
  await page.getByRole('columnheader', { name: 'large' }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('1\u2009000\u2009000 characters').waitFor();
  await page.keyboard.press('Escape');
});

test('null and an empty text look different, and types are told', async ({ page, runSql }) => {
  await runSql(
    "SELECT CAST(NULL AS TEXT) AS nothing, '' AS empty, 'null' AS word, true AS yes, DATE '2026-01-31' AS day",
  );
  await page.locator('.null').waitFor();
  equal(
    (await page.getByRole('gridcell').allTextContents()).map((text) => text.trim()),
    ['null', '', 'null', 'true', '2026-01-31'],
  );
  equal(await page.locator('.null').count(), 1);
  const title = await page.getByRole('columnheader', { name: 'day' }).getAttribute('title');
  check(title?.includes('date'), `type in the title: ${title}`);
});
