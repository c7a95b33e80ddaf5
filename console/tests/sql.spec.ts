// The SQL screen.

import { check, equal, eventually, test, type World } from './harness';

const HIT = 'SELECT country, sum(amount) AS total FROM sales JOIN shops USING (shop) GROUP BY country ORDER BY country';

async function clipboard({ page }: World): Promise<string> {
  return page.evaluate(() => navigator.clipboard.readText());
}

async function type({ page }: World, text: string): Promise<void> {
  await page.getByRole('textbox', { name: 'SQL' }).click();
  await page.keyboard.press('Control+a');
  await page.keyboard.type(text);
}

test('sql: Ctrl+Enter runs the statement at the cursor, or the selection', async (world) => {
  const { page, open } = world;
  await open('#/sql');
  await type(world, 'SELECT 1 AS one; SELECT 2 AS two');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('columnheader', { name: 'two' }).waitFor();
  await page.keyboard.press('Control+Home');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('columnheader', { name: 'one' }).waitFor();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('columnheader', { name: 'two' }).waitFor();
});

test('sql: errors have message, hint and code', async ({ page, runSql, expectRefusals }) => {
  expectRefusals();
  await runSql('SELECT * FROM salez');
  const alert = page.getByRole('alert');
  await alert.waitFor();
  const text = await alert.textContent();
  check(text?.includes('does not exist') && text.includes('undefined_table'), `the error is shown: ${text}`);
});

test('sql: a running query can be cancelled', async ({ page, runSql }) => {
  await runSql(
    'SELECT count(*) FROM generate_series(1, 30000000) a, generate_series(1, 3000) b WHERE (a.a + b.b) % 7 = 3',
  );
  await page.getByRole('button', { name: 'Cancel' }).waitFor();
  await page.waitForTimeout(400);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText('Cancelled after').waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).waitFor();
});

test('sql: statements without rows say so', async ({ page, runSql }) => {
  await runSql('CREATE TABLE without_rows (a INT, PRIMARY KEY (a))');
  await page.getByText('This statement gives no rows.').waitFor();
  await runSql('DROP TABLE without_rows');
  await page.getByText('This statement gives no rows.').waitFor();
});

test('sql: tables, columns and keywords are completed', async (world) => {
  const { page, open } = world;
  await open('#/sql');
  await page.getByRole('complementary').getByText('sales', { exact: true }).waitFor();
  await type(world, 'SELECT amo');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('SELECT * FROM sal');
  await page.locator('.cm-tooltip-autocomplete').getByText('sales', { exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.type('es s WHERE s.amo');
  await page.locator('.cm-tooltip-autocomplete').getByText('amount', { exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('refre');
  await page.locator('.cm-tooltip-autocomplete').getByText('REFRESH', { exact: true }).waitFor();
});

test('sql: the tree inserts names, quoted where they must be', async (world) => {
  const { page, open } = world;
  await open('#/sql');
  await page.getByRole('button', { name: 'Insert a table\'s "name"' }).click();
  const text = await page.getByRole('textbox', { name: 'SQL' }).textContent();
  check(text?.includes(`"Odd names"."a table's ""name"""`), `inserted: ${text}`);
  await type(world, '');
  await page.keyboard.type(`SELECT * FROM "Odd names"."a table's ""name"""`);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Enter');
  await page.getByRole('columnheader', { name: 'quo"te' }).waitFor();
  await page.getByText('9\u2009007\u2009199\u2009254\u2009740\u2009993').waitFor();
});

test('sql: tabs have names and outlive a reload', async (world) => {
  const { page, open } = world;
  await open('#/sql');
  await type(world, 'SELECT 41');
  await page.getByRole('button', { name: 'New tab' }).click();
  await type(world, 'SELECT 42');
  await page.getByRole('tab', { name: 'Query 2' }).dblclick();
  await page.keyboard.type('answers');
  await page.keyboard.press('Enter');
  await page.reload();
  await page.getByRole('tab', { name: 'answers', selected: true }).waitFor();
  check((await page.getByRole('textbox', { name: 'SQL' }).textContent())?.includes('SELECT 42'), 'the text is kept');
  await page.getByRole('button', { name: 'Close answers' }).click();
  check(
    (await page.getByRole('textbox', { name: 'SQL' }).textContent())?.includes('SELECT 41'),
    'the other tab is shown',
  );
});

test('sql: results stay with their tab', async (world) => {
  const { page, runSql } = world;
  await runSql('SELECT 1 AS first_result');
  await page.getByRole('columnheader', { name: 'first_result' }).waitFor();
  await page.getByRole('button', { name: 'New tab' }).click();
  await page.getByText('Rows appear here').waitFor();
  await page.getByRole('tab', { name: 'Query 1' }).click();
  await page.getByRole('columnheader', { name: 'first_result' }).waitFor();
});

test('sql: a range is copied with headers, in every format', async (world) => {
  const { page, runSql } = world;
  await runSql("SELECT n, 'v' || n AS v, n * 10 AS ten FROM generate_series(1, 5) n ORDER BY n");
  await page.getByRole('gridcell').first().click();
  await page.keyboard.press('Shift+ArrowRight');
  await page.keyboard.press('Shift+ArrowDown');
  await page.keyboard.press('Control+c');
  await eventually(async () => equal(await clipboard(world), 'n\tv\n1\tv1\n2\tv2\n'));
  for (const [format, expected] of [
    ['csv', 'n,v\n1,v1\n2,v2\n'],
    ['json', '[\n  {"n": 1, "v": "v1"},\n  {"n": 2, "v": "v2"}\n]\n'],
    ['markdown', '| n | v |\n| ---: | --- |\n| 1 | v1 |\n| 2 | v2 |\n'],
  ] as const) {
    await page.getByRole('combobox', { name: 'Format' }).selectOption(format);
    await page.getByRole('button', { name: 'Copy selection' }).click();
    await eventually(async () => equal(await clipboard(world), expected));
  }
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download' }).click(),
  ]);
  equal(download.suggestedFilename(), 'result.md');
});

test('sql: one click draws a chart', async ({ page, runSql, shot }) => {
  await runSql(HIT);
  await page.getByRole('gridcell').first().waitFor();
  await page.getByRole('tab', { name: 'Chart' }).click();
  await page.locator('canvas').waitFor();
  for (const kind of ['line', 'pie', 'scatter', 'bar']) {
    await page.getByRole('button', { name: kind, exact: true }).click();
    await page.getByRole('img', { name: `${kind} chart of the result` }).waitFor();
  }
  await page.waitForTimeout(300);
  await shot('sql-chart');
});

test('sql: plans are trees, with times after ANALYZE', async ({ page, open, shot }) => {
  await open(`#/sql?${new URLSearchParams({ q: HIT })}`);
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByText('Physical plan', { exact: true }).waitFor();
  await page.getByText('answered from cube').or(page.getByText('Answered from')).first().waitFor();
  await page.getByRole('button', { name: 'Analyze' }).click();
  await page.getByText('Physical plan with times').waitFor();
  check((await page.locator('.node .badge').count()) > 0, 'operators have times');
  await shot('sql-plan');
});

test('sql: the route card names cube, cuboid and reasons', async ({ page, runSql, shot }) => {
  await runSql(HIT);
  const route = page.getByRole('region', { name: 'Route' });
  await route.waitFor();
  const text = await route.textContent();
  check(text?.includes('public.takings') && text.includes('(country)'), `the route: ${text}`);
  await page.getByRole('button', { name: 'Compare with the tables' }).click();
  await route.getByText('All 3 rows are the same.').waitFor();
  check((await route.textContent())?.includes('from the tables'), 'the tables are compared by time');
  await shot('sql-route');
});

test('sql: the route card tells why no cube answers', async ({ page, runSql }) => {
  await runSql('SELECT country, max(amount) FROM sales JOIN shops USING (shop) GROUP BY country');
  const route = page.getByRole('region', { name: 'Route' });
  await route.getByText('No cube answers').waitFor();
  check((await route.textContent())?.includes('max('), 'the reason names the measure');
  await route.getByRole('link', { name: 'Find a cube for it' }).click();
  await page.getByRole('heading', { name: 'Misses' }).waitFor();
});

test('sql: the route card tells of phases, and of a ready plan', async ({ page, runSql, server, shot }) => {
  // What live tables may change is planned each time.
  const files = `${server.folder}/ready-files/`;
  await server.sql(`COPY (SELECT kind, shop, amount FROM sales) TO '${files}part.parquet' (FORMAT parquet)`);
  await server.sql(`CREATE EXTERNAL TABLE ready STORED AS PARQUET LOCATION '${files}'`);
  await server.sql('CREATE CUBE of_ready AS SELECT kind, shop, sum(amount) FROM ready GROUP BY CUBE (kind, shop)');
  await server.sql('CREATE CUBE other AS SELECT shop, max(amount) FROM ready GROUP BY CUBE (shop)');
  await server.sql('BUILD CUBE of_ready');
  const sql = 'SELECT kind, sum(amount) FROM ready WHERE shop = 3 GROUP BY kind';
  await eventually(async () => {
    await server.sql(sql);
    const log = `SELECT ready_plan FROM system.query_log WHERE query = '${sql}' ORDER BY started_at DESC LIMIT 1`;
    equal(await server.sql(log), [[true]]);
  });
  await runSql(sql);
  const route = page.getByRole('region', { name: 'Route' });
  const costs = route.getByRole('group', { name: 'What it took' });
  await costs.getByText('ready plan').waitFor();
  check(/planning \d+.*running \d+.*sending \d+/.test((await costs.textContent()) ?? ''), 'phases are told');
  let explained = 0;
  page.on('request', (request) => {
    if (request.postData()?.includes('EXPLAIN')) explained += 1;
  });
  await page.waitForTimeout(300);
  equal(explained, 0, 'EXPLAIN before somebody looks');
  await route.getByText('Why not the others').click();
  await route.getByText(/cube `public.other` not used/).waitFor();
  equal(explained, 1);
  await shot('sql-ready-plan');
  for (const name of ['CUBE other', 'CUBE of_ready', 'TABLE ready']) await server.sql(`DROP ${name}`);
});

test('sql: a query without a cube has its phases, too', async ({ page, runSql }) => {
  await runSql('SELECT 1 AS one');
  const costs = page.getByRole('group', { name: 'What it took' });
  await costs.getByText(/^running/).waitFor();
  equal(await page.getByRole('region', { name: 'Route' }).getByText('No cube answers').count(), 0);
});

test('sql: progress is shown while a query runs, before its first row', async ({ page, runSql, shot }) => {
  await runSql('SELECT count(*) FROM sales a JOIN sales b ON a.shop % 4 = b.shop % 4 WHERE (a.id + b.id) % 7 = 3');
  await page.getByText(/rows read/).waitFor();
  await page.getByText(/rows\/s/).waitFor();
  await shot('sql-progress');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText('Cancelled after').waitFor();
});

test('sql: the history is searched, and opens statements', async (world) => {
  const { page, runSql, expectRefusals } = world;
  expectRefusals();
  await runSql('SELECT 12 AS dozen');
  await page.getByRole('columnheader', { name: 'dozen' }).waitFor();
  await runSql('SELECT nothing_like_it');
  await page.getByRole('alert').waitFor();
  await page.getByRole('button', { name: 'History' }).click();
  await page.getByRole('searchbox', { name: 'Search history' }).fill('dozen');
  const entries = page.getByRole('dialog').getByRole('listitem');
  equal(await entries.count(), 1);
  await entries.first().getByRole('button').click();
  check((await page.getByRole('textbox', { name: 'SQL' }).textContent())?.includes('dozen'), 'the statement is opened');
});

test('sql: a link opens a statement and does not run it', async ({ page, open }) => {
  await open('#/sql?q=SELECT%20%27linked%27');
  check(
    (await page.getByRole('textbox', { name: 'SQL' }).textContent())?.includes("SELECT 'linked'"),
    'the statement is there',
  );
  equal(await page.getByRole('gridcell').count(), 0);
  await page.getByRole('button', { name: 'Copy link' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
});

test('sql: settings go with each statement', async ({ page, runSql, open }) => {
  await open('#/sql');
  await page.getByRole('button', { name: 'Settings', exact: true }).click();
  await page.getByRole('textbox', { name: 'Settings' }).fill("timezone = 'Europe/Oslo'\nnyala.use_cubes = off");
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Settings (2)' }).waitFor();
  await runSql('SHOW timezone');
  await page.getByText('Europe/Oslo').waitFor();
});
