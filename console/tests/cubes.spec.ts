// Cubes, their lattice, segments, actions and jobs.

import { check, equal, eventually, test, type World } from './harness';

async function runAction({ page }: World, button: string, expected: string): Promise<void> {
  await page.getByRole('button', { name: button, exact: true }).first().click();
  const dialog = page.getByRole('dialog');
  check((await dialog.textContent())?.includes(expected), `the statement is shown: ${expected}`);
  await dialog.getByRole('button', { name: 'Run', exact: true }).click();
}

test('cubes: the lattice shows cells, memory, hits and what is not used', async (world) => {
  const { page, open, server, shot } = world;
  await server.sql('SELECT country, sum(amount) FROM sales JOIN shops USING (shop) GROUP BY country');
  await open('#/cubes');
  await page.getByRole('link', { name: 'takings', exact: true }).click();
  await page
    .getByRole('button', { name: /^Cuboid \(/ })
    .first()
    .waitFor();
  equal(await page.getByRole('button', { name: /^Cuboid \(/ }).count(), 6, 'cuboids');
  const node = page.getByRole('button', { name: /^Cuboid \(country\),/ });
  await node.getByText(/hits? · .* in memory/).waitFor();
  await node.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Statement that drops it' }).waitFor();
  await shot('cube');
});

test('cubes: cuboids of a cube that is switched off are not told as unused', async ({ page, open, server }) => {
  await server.sql(
    'CREATE CUBE resting WITH (auto_refresh = off, answers = off) AS SELECT kind, sum(amount) FROM sales GROUP BY CUBE (kind)',
  );
  await server.sql('BUILD CUBE resting');
  await open('#/cubes/public/resting');
  await page.getByRole('main').getByText('switched off', { exact: true }).first().waitFor();
  const ending = (word: string) => page.getByRole('button', { name: new RegExp(`^Cuboid \\(.*, ${word}$`) });
  await ending('switched off').first().waitFor();
  equal([await ending('switched off').count(), await ending('not used').count()], [2, 0], 'cuboids by their use');
  await server.sql('ALTER CUBE resting SET (answers = on)');
  await ending('not used').first().waitFor();
  equal(await ending('switched off').count(), 0, 'cuboids that are switched off');
  // The page of the cube would still ask for it.
  await open('#/cubes');
  await server.sql('DROP CUBE resting');
});

test('cubes: build, refresh, check and drop, with the statement shown first', async (world) => {
  const { page, open, server } = world;
  await server.sql(
    'CREATE CUBE "Odd cube" WITH (auto_refresh = off) AS SELECT kind, sum(amount) FROM sales GROUP BY CUBE (kind)',
  );
  await open('#/cubes');
  await page.getByRole('link', { name: 'Odd cube' }).click();
  await page.getByRole('heading', { name: 'public.Odd cube' }).waitFor();
  await runAction(world, 'Build', 'BUILD CUBE public."Odd cube"');
  await page.getByRole('main').getByText('ready', { exact: true }).first().waitFor();
  await runAction(world, 'Refresh', 'REFRESH CUBE public."Odd cube"');
  await eventually(async () => {
    const jobs = await server.sql(`SELECT state FROM system.jobs WHERE cube = 'public.Odd cube' AND kind = 'refresh'`);
    equal(jobs, [['done']]);
  });
  await runAction(world, 'Check', 'CHECK CUBE public."Odd cube"');
  await page.getByRole('region', { name: 'Check' }).getByText('ok', { exact: true }).first().waitFor();
  await page.getByRole('region', { name: 'Jobs' }).getByText('refresh').first().waitFor();
  await runAction(world, 'Drop', 'DROP CUBE public."Odd cube"');
  await page.getByRole('heading', { name: 'Cubes', level: 1 }).waitFor();
  await open('#/cubes/public/Odd%20cube');
  await page.getByText('There is no cube of this name.').waitFor();
});

test('cubes: segments are a line with holes, and are chosen by click and shift', async (world) => {
  const { page, open, server, shot, expectRefusals } = world;
  const files = `${server.folder}/sales-files/`;
  // The page of the cube of another test may still ask for it.
  expectRefusals();
  await server.sql(`COPY (SELECT id, day, kind, amount FROM sales) TO '${files}part.parquet' (FORMAT parquet)`);
  await server.sql(`CREATE EXTERNAL TABLE sales_files STORED AS PARQUET LOCATION '${files}'`);
  await server.sql(
    `CREATE CUBE by_month PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS SELECT day, kind, sum(amount) FROM sales_files GROUP BY CUBE (day, kind)`,
  );
  await server.sql(`BUILD CUBE by_month FROM DATE '2026-01-01' TO DATE '2026-02-01'`);
  await open('#/cubes/public/by_month');
  const segments = page.getByRole('listbox').getByRole('option');
  await segments.first().waitFor();
  const labels = await segments.evaluateAll((all) => all.map((one) => one.getAttribute('aria-label') ?? ''));
  check(
    labels.some((label) => label.endsWith('ready')) && labels.some((label) => label.endsWith('missing')),
    `segments: ${labels}`,
  );
  await segments.first().click();
  await segments.last().click({ modifiers: ['Shift'] });
  await shot('segments');
  const line = page.getByRole('region', { name: 'Segments' });
  await line.getByRole('button', { name: 'Build' }).click();
  await page
    .getByRole('dialog')
    .getByText(/BUILD CUBE public.by_month FROM DATE '2026-01-01' TO DATE '2026-04-01'/)
    .waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await eventually(async () =>
    equal(
      await page
        .getByRole('listbox')
        .getByRole('option', { name: /ready$/ })
        .count(),
      3,
      'ready segments',
    ),
  );
  await server.sql('DROP CUBE by_month');
  await server.sql('DROP TABLE sales_files');
});

test('jobs: a running build is seen and cancelled', async (world) => {
  const { page, open, server } = world;
  await server.sql(`CREATE TABLE many AS SELECT n, n % 100000 AS a, n % 77777 AS b FROM generate_series(1, 3000000) n`);
  await server.sql(
    'CREATE CUBE slow WITH (auto_refresh = off) AS SELECT a, b, sum(n), count(DISTINCT n) FROM many GROUP BY CUBE (a, b)',
  );
  await open('#/cubes/public/slow');
  await page.getByRole('heading', { name: 'public.slow' }).waitFor();
  await runAction(world, 'Build', 'BUILD CUBE public.slow');
  await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await page.getByRole('progressbar').first().waitFor();
  await page.getByRole('main').getByRole('button', { name: 'Cancel', exact: true }).first().click();
  await page.getByRole('dialog').getByText('CANCEL JOB').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('main').getByText('cancelled', { exact: true }).first().waitFor();
  await server.sql('DROP CUBE slow');
  await server.sql('DROP TABLE many');
  world.expectRefusals();
});
