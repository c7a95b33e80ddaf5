// Queries, tables, the server's lists, the load test, and what holds for all screens.

import { check, equal, eventually, test } from './harness';

export const SCREENS: [string, string][] = [
  ['home', '#/'],
  ['sql', '#/sql'],
  ['sql-saved', '#/sql/saved'],
  ['misses', '#/misses'],
  ['cubes', '#/cubes'],
  ['cube', '#/cubes/public/takings'],
  ['tables', '#/tables'],
  ['table', '#/tables/public/sales'],
  ['queries-running', '#/queries/running'],
  ['queries-log', '#/queries/log'],
  ['queries-history', '#/queries/history'],
  ['queries-groups', '#/queries/groups'],
  ['queries-stuck', '#/queries/stuck'],
  ['jobs', '#/jobs'],
  ['server-live-tables', '#/server/live-tables'],
  ['server-disk-stores', '#/server/disk-stores'],
  ['server-recovery', '#/server/recovery'],
  ['server-caches', '#/server/caches'],
  ['server-nodes', '#/server/nodes'],
  ['server-leases', '#/server/leases'],
  ['server-tasks', '#/server/tasks'],
  ['server-settings', '#/server/settings'],
  ['users', '#/users'],
  ['load', '#/load'],
  ['load-file', '#/load-file'],
  ['first-steps', '#/first-steps'],
];

test('home: version, uptime, figures and charts', async ({ page, open }) => {
  await open('#/');
  await page.getByText('Nothing.').waitFor();
  await page.locator('.uplot').first().waitFor();
  await eventually(async () =>
    check(/Up for\s*\d/.test((await page.locator('.facts').textContent()) ?? ''), 'uptime is shown'),
  );
  check(/Version\s*\d/.test((await page.locator('.facts').textContent()) ?? ''), 'the version is shown');
});

test('queries: what runs is seen and killed', async ({ page, open, server }) => {
  const running = server
    .sql('SELECT count(*) FROM generate_series(1, 30000000) a, generate_series(1, 3000) b WHERE (a.a + b.b) % 11 = 3')
    .catch((error: Error) => error.message);
  await open('#/queries/running');
  const row = page.getByRole('row').filter({ hasText: '% 11 = 3' });
  await row.getByRole('button', { name: 'Kill' }).click();
  await page
    .getByRole('dialog')
    .getByText(/KILL QUERY \d+/)
    .waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  check(String(await running).length > 0, 'the query ended');
  await eventually(async () => equal(await row.count(), 0, 'rows of the killed query'));
  await page.getByRole('link', { name: 'Log' }).click();
  await page.getByRole('row').filter({ hasText: '% 11 = 3' }).getByText('killed').first().waitFor();
});

test('queries: the log leaves out what asks about the server, filters, sorts and opens statements', async ({
  page,
  open,
  server,
}) => {
  await server.sql("SELECT 'needle in the log'");
  await open('#/queries/log');
  await page.getByRole('searchbox', { name: 'Filter Ended' }).fill('needle');
  equal(await page.getByText('system.query_log').count(), 0, 'statements about the server');
  await page.getByRole('button', { name: 'took us' }).click();
  await page.getByRole('link', { name: "SELECT 'needle in the log'" }).first().click();
  await page.getByRole('textbox', { name: 'SQL' }).getByText("'needle in the log'").waitFor();
});

test('tables: a table has columns and a profile', async ({ page, open, shot }) => {
  await open('#/tables');
  await page.getByRole('link', { name: `a table's "name"` }).click();
  await page.getByRole('button', { name: 'Profile the columns' }).click();
  const profile = page.getByRole('region', { name: 'Profile' });
  await profile.getByText('9007199254740993').waitFor();
  await profile.getByText('50.0 %').waitFor();
  await shot('table-profile');
});

test('every list opens in the editor', async ({ page, open }) => {
  for (const [name, hash] of SCREENS) {
    if (['home', 'sql', 'sql-saved', 'load', 'load-file'].includes(name)) continue;
    await open(hash);
    await page.getByRole('link', { name: 'Open in editor' }).first().waitFor();
  }
  await page.getByRole('link', { name: 'Open in editor' }).first().click();
  await page.getByRole('textbox', { name: 'SQL' }).waitFor();
});

test('every screen works without an error, at 1280 and 390 pixels', async ({ page, open }) => {
  for (const [name, hash] of SCREENS) {
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 860 });
      await open(hash);
      await page.getByRole('main').waitFor();
      await page.waitForTimeout(350);
      const alerts = await page.getByRole('alert').allTextContents();
      equal(alerts, [], `alerts on ${name}`);
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      check(overflow <= 0, `${name} is ${overflow} pixels too wide at ${width}`);
    }
  }
});

test('an address that is none says so', async ({ page, open }) => {
  await open('#/nowhere');
  await page.getByText('There is nothing at this address').waitFor();
});

test('the keyboard reaches the screens and their controls', async ({ page, open }) => {
  await open('#/cubes');
  await page.getByRole('link', { name: 'takings', exact: true }).waitFor();
  await page.keyboard.press('Tab');
  equal(await page.evaluate(() => document.activeElement?.textContent), 'Skip to content');
  await page.keyboard.press('Enter');
  equal(await page.evaluate(() => document.activeElement?.id), 'main');
  const seen = new Set<string>();
  for (let at = 0; at < 40; at += 1) {
    await page.keyboard.press('Tab');
    seen.add((await page.evaluate(() => document.activeElement?.textContent?.trim())) ?? '');
  }
  check(seen.has('takings') && seen.has('Refresh') && seen.has('Open in editor'), `reached: ${[...seen].join(', ')}`);
});

test('the theme is switched and kept', async ({ page, open }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await open('#/');
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  equal(await theme(), 'dark');
  await page.getByRole('combobox', { name: 'Theme' }).selectOption('light');
  equal(await theme(), 'light');
  await page.reload();
  equal(await theme(), 'light');
});

test('load test: clients ask, charts are drawn, and it stops', async ({ page, open, shot }) => {
  await open(
    '#/load?q=SELECT%20country%2C%20sum(amount)%20FROM%20sales%20JOIN%20shops%20USING%20(shop)%20GROUP%20BY%20country',
  );
  await page.getByRole('spinbutton', { name: 'clients' }).fill('3');
  await page.getByRole('spinbutton', { name: 'seconds' }).fill('2');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.locator('.uplot').first().waitFor();
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  await page.getByRole('region', { name: 'Steps' }).getByRole('row').nth(3).waitFor();
  await page.getByRole('button', { name: 'Start' }).waitFor();
  await shot('load-done');
  await page.getByLabel('Query').fill('DROP TABLE sales');
  check(await page.getByRole('button', { name: 'Start' }).isDisabled(), 'only queries may be repeated');
});
