// Slow, breaking and dying servers.

import { check, equal, eventually, test } from './harness';

test('an answer that breaks off keeps its rows and says so', async ({ page, runSql, proxy, expectRefusals, keep }) => {
  expectRefusals();
  await keep('maxRows', 100_000);
  proxy.cutAfterBytes = 300_000;
  await runSql("SELECT n, 'row ' || n AS name FROM generate_series(1, 90000) n");
  await page.getByRole('alert').getByText('broke off after').waitFor();
  await page.getByText('not all of the answer').waitFor();
  await page.getByRole('gridcell').nth(10).waitFor();
});

test('a part of the console that does not load is told, and loaded with the page', async ({ page, open, expectRefusals }) => {
  expectRefusals();
  await page.route('**/assets/editor-*', (route) => route.abort());
  await open('#/sql');
  await page.getByRole('alert').getByText('did not load').waitFor();
  await page.unroute('**/assets/editor-*');
  await page.getByRole('button', { name: 'Reload the page' }).click();
  await page.getByRole('textbox', { name: 'SQL' }).or(page.locator('.cm-content')).first().waitFor();
  equal(await page.getByRole('alert').count(), 0);
});

test('an error in the middle of an answer is told', async ({ page, runSql, expectRefusals, keep }) => {
  expectRefusals();
  await keep('maxRows', 100_000);
  await runSql("SELECT n, 1 / (n - 80000) AS x, 'some text to fill the answer' AS t FROM generate_series(1, 90000) n");
  await page.getByRole('alert').waitFor();
});

test('a slow server shows the time, and can be cancelled', async ({ page, runSql, proxy }) => {
  proxy.delayMs = 1500;
  await runSql('SELECT 1 AS slow');
  await page.getByText('Waiting for the first rows').waitFor();
  await page.getByRole('columnheader', { name: 'slow' }).waitFor();
});

test('a dead server is told, and the screens come back with it', async ({ page, open, proxy, expectRefusals }) => {
  expectRefusals();
  await open('#/');
  await page.getByText('Needs attention').waitFor();
  await page.getByText('From cubes').waitFor();
  proxy.isDead = true;
  await page.getByRole('alert').getByText('the server does not answer').first().waitFor();
  proxy.isDead = false;
  await eventually(async () => equal(await page.getByRole('alert').count(), 0, 'alerts'));
  proxy.isDead = true;
  await page.getByRole('link', { name: 'SQL', exact: true }).click();
  await page.getByRole('textbox', { name: 'SQL' }).click();
  await page.keyboard.type('SELECT 5 AS five');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('region', { name: 'Result' }).getByText('the server does not answer').waitFor();
  proxy.isDead = false;
  await page.keyboard.press('Control+Enter');
  await page.getByRole('columnheader', { name: 'five' }).waitFor();
});

test('lists keep what was known while the server is away', async ({ page, open, proxy, expectRefusals }) => {
  expectRefusals();
  await open('#/cubes');
  await page.getByRole('link', { name: 'takings' }).waitFor();
  proxy.isDead = true;
  await page.getByText('The list below is what was known before').waitFor();
  await page.getByRole('link', { name: 'takings' }).waitFor();
  proxy.isDead = false;
  await eventually(async () => equal(await page.getByRole('alert').count(), 0, 'alerts'));
});

test('polls stop while the tab is hidden', async ({ page, open }) => {
  await open('#/queries/running');
  await page.getByText('Running now').waitFor();
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: true, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await page.waitForTimeout(500);
  let requests = 0;
  page.on('request', () => {
    requests += 1;
  });
  await page.waitForTimeout(4500);
  check(requests === 0, `${requests} requests while hidden`);
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: false, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await eventually(async () => check(requests > 0, 'asks again when seen'));
});

test('a server that is killed in the middle of a query is told, and used again when it is back', async (world) => {
  const { page, runSql, server, expectRefusals } = world;
  expectRefusals();
  await runSql(
    'SELECT count(*) FROM generate_series(1, 30000000) a, generate_series(1, 3000) b WHERE (a.a + b.b) % 5 = 3',
  );
  await page.getByText('Waiting for the first rows').waitFor();
  server.kill();
  await page.getByRole('region', { name: 'Result' }).getByRole('alert').waitFor();
  await server.restart();
  await runSql('SELECT count(*) AS back FROM sales');
  await page.getByRole('columnheader', { name: 'back' }).waitFor();
});
