// Roles and grants.

import { check, equal, test } from './harness';

test('users: created, changed, granted to, revoked from, dropped', async ({ page, open, server, shot }) => {
  await open('#/users');
  const dialog = page.getByRole('dialog');
  /** By the keyboard, which is at this button when the statement is shown. */
  const run = async () => {
    await dialog.getByRole('button', { name: 'Run', exact: true }).waitFor();
    equal(await page.evaluate(() => document.activeElement?.textContent?.trim()), 'Run', 'where the keyboard is');
    await page.keyboard.press('Enter');
  };
  await page.getByRole('button', { name: 'New user or group' }).click();
  await dialog.getByLabel('Name').fill('Ann "x"');
  await dialog.getByLabel('Password').fill("it's secret");
  await dialog.getByRole('button', { name: 'Show the statement' }).click();
  const shown = await dialog.textContent();
  check(shown?.includes(`CREATE USER "Ann ""x""" LOGIN PASSWORD '********'`), `shown: ${shown}`);
  await run();
  const roles = page.getByRole('region', { name: 'Users and groups' });
  const row = roles.getByRole('row').filter({ hasText: 'Ann "x"' });
  await row.waitFor();

  await page.getByRole('button', { name: 'Grant', exact: true }).click();
  await dialog.getByRole('combobox').last().selectOption('public.sales');
  await dialog.getByRole('button', { name: 'Show the statement' }).click();
  await dialog.getByText('GRANT SELECT ON public.sales TO "Ann ""x"""').waitFor();
  await run();
  const grants = page.getByRole('region', { name: 'Grants' });
  await grants.getByText('sales').waitFor();
  await page.getByRole('button', { name: 'Grant', exact: true }).click();
  await dialog.getByRole('combobox').nth(1).selectOption('cube');
  await dialog.getByRole('combobox').last().selectOption('public.takings');
  await dialog.getByRole('button', { name: 'Show the statement' }).click();
  await run();
  await grants.getByText('takings').waitFor();
  await shot('users');

  for (const name of ['sales', 'takings']) {
    await grants.getByRole('row').filter({ hasText: name }).getByRole('button', { name: 'Revoke' }).click();
    await run();
    await grants.getByText(name).waitFor({ state: 'detached' });
  }
  await row.getByRole('button', { name: 'Change' }).click();
  await dialog.getByLabel(/may log in/).uncheck();
  await dialog.getByRole('button', { name: 'Show the statement' }).click();
  await dialog.getByText('ALTER USER "Ann ""x""" NOLOGIN').waitFor();
  await run();
  await dialog.waitFor({ state: 'detached' });
  equal(
    await server.sql(`SELECT rolcanlogin FROM pg_catalog.pg_roles WHERE rolname = 'Ann "x"'`).catch(() => [[false]]),
    [[false]],
  );
  await row.getByRole('button', { name: 'Drop' }).click();
  await run();
  await row.waitFor({ state: 'detached' });
});
