// A database without tables, and the way to the first answer from a cube.

import { check, equal, eventually, test } from './harness';
import { startNyala } from './nyala';
import { Proxy } from './proxy';

test('first steps: an empty database leads to an answer from a cube', async ({ page, shot }) => {
  const server = await startNyala();
  const front = await Proxy.start(server.url);
  page.removeAllListeners('request');
  const steps = page.getByRole('region', { name: 'First steps' });
  const dialog = page.getByRole('dialog');
  const run = () => dialog.getByRole('button', { name: 'Run', exact: true }).click();
  const button = (name: string) => steps.getByRole('button', { name });
  try {
    await page.goto(`${front.url}/console/`);
    await page.getByText('There is no table yet').waitFor();
    await steps.getByRole('link', { name: 'Load a file' }).waitFor();
    await shot('first-steps-empty');
    check(await button('Make a cube over it').isDisabled(), 'there is nothing to make a cube over');
    await button('Make the sample data').click();
    await dialog.getByText('generate_series').waitFor();
    await run();
    await steps.getByRole('link', { name: 'sample_sales' }).waitFor({ timeout: 60_000 });
    await button('Make a cube over it').click();
    await dialog.getByText('BUILD CUBE sample_cube').waitFor();
    await run();
    await steps.getByRole('link', { name: 'sample_cube: its cuboids' }).waitFor({ timeout: 60_000 });
    equal(await server.sql('SELECT count(*) FROM sample_sales'), [[200_000]]);
    await steps.getByRole('link', { name: 'Ask for sales by country' }).click();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('region', { name: 'Route' }).getByText('sample_cube').first().waitFor();
    equal(await page.getByRole('gridcell').count(), 4 * 3, 'cells');

    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByRole('link', { name: 'First steps' }).click();
    await button('Remove the sample data').click();
    await dialog.getByText('DROP TABLE IF EXISTS sample_sales').waitFor();
    await run();
    await button('Make the sample data').waitFor();
    equal(await server.sql("SELECT count(*) FROM information_schema.tables WHERE table_name = 'sample_sales'"), [[0]]);
  } finally {
    front.stop();
    await server.stop();
  }
});

test('first steps: a database with tables does not show them, but has a link', async ({ page, open }) => {
  await open('#/');
  await page.locator('.uplot').first().waitFor();
  equal(await page.getByRole('region', { name: 'First steps' }).count(), 0);
  await page.getByRole('link', { name: 'First steps' }).click();
  await page.getByRole('heading', { name: 'First steps', level: 1 }).waitFor();
  await page.getByRole('link', { name: 'Open in editor' }).first().click();
  await page.getByRole('textbox', { name: 'SQL' }).getByText('CREATE EXTERNAL TABLE').waitFor();
});

test('first steps: a dead server is told, and a statement that fails, too', async ({ page, open, proxy, expectRefusals }) => {
  expectRefusals();
  await open('#/first-steps');
  const steps = page.getByRole('region', { name: 'First steps' });
  await steps.getByRole('button', { name: 'Make the sample data' }).click();
  proxy.isDead = true;
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await steps.getByRole('alert').getByText('the server does not answer').waitFor();
  const works = page.getByRole('region', { name: 'Statements in the background' });
  await works.getByRole('alert').getByText('the server does not answer').waitFor();
  proxy.isDead = false;
  await steps.getByRole('button', { name: 'Refresh' }).click();
  await eventually(async () => equal(await steps.getByRole('alert').count(), 0, 'alerts'));
});

test('first steps: all of them by the keyboard', async ({ page, open }) => {
  await open('#/first-steps');
  await page.getByRole('region', { name: 'First steps' }).getByRole('button', { name: 'Refresh' }).focus();
  const reached: string[] = [];
  for (let at = 0; at < 20; at += 1) {
    await page.keyboard.press('Tab');
    reached.push((await page.evaluate(() => document.activeElement?.textContent?.trim())) ?? '');
    if (reached.at(-1) === 'Make the sample data') break;
  }
  check(reached.includes('Load a file') && reached.includes('Tables'), `reached: ${reached.join(', ')}`);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('CREATE LIVE TABLE sample_sales').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
});
