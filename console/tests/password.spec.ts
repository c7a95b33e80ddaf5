// A user changes the own password.

import { check, equal, eventually, test, type World } from './harness';
import { asUser, type Nyala, startWithPasswords } from './nyala';
import { Proxy } from './proxy';

interface Front {
  server: Nyala;
  proxy: Proxy;
}

const ADMIN = asUser('admin', 'secret');

/** Ann is logged in, on the first screen. */
async function asAnn({ page }: World, body: (front: Front) => Promise<void>): Promise<void> {
  const server = await startWithPasswords('admin', 'secret');
  const proxy = await Proxy.start(server.url);
  // The requests go to another proxy than the others.
  page.removeAllListeners('request');
  try {
    await server.sql("CREATE USER ann PASSWORD 'ann'", ADMIN);
    await page.goto(`${proxy.url}/console/`);
    await logIn(page, 'ann');
    await page.getByRole('heading', { name: 'Home' }).waitFor();
    await body({ server, proxy });
  } finally {
    proxy.stop();
    await server.stop();
  }
}

async function logIn(page: World['page'], password: string): Promise<void> {
  await page.getByLabel('User').fill('ann');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
}

async function change({ page }: World, current: string, next: string, again = next): Promise<void> {
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Current password').fill(current);
  await dialog.getByLabel('New password', { exact: true }).fill(next);
  await dialog.getByLabel('New password, once more').fill(again);
  await page.keyboard.press('Enter');
}

const isKnown = (server: Nyala, password: string) =>
  server.sql('SELECT 1', asUser('ann', password)).then(
    () => true,
    () => false,
  );

const openDialog = ({ page }: World) => page.getByRole('button', { name: 'Change password' }).click();

test('password: it is changed by keyboard, and the page goes on', async (world) => {
  const { page, expectRefusals, shot } = world;
  expectRefusals();
  const NEW = "it's Größer";
  await asAnn(world, async ({ server }) => {
    const seen: string[] = [];
    page.on('request', (request) => seen.push(request.url()));
    page.on('console', (message) => seen.push(message.text()));
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Change password' }).press('Enter');
    await dialog.getByText(`ALTER USER "ann" PASSWORD '********'`).waitFor();
    // Current password, new one, once more.
    await page.keyboard.type('ann');
    await page.keyboard.press('Tab');
    await page.keyboard.type(NEW);
    await page.keyboard.press('Tab');
    await page.keyboard.type('another');
    await page.keyboard.press('Enter');
    await dialog.getByRole('alert').getByText('The two entries of the new password differ.').waitFor();
    await shot('password');
    check(await isKnown(server, 'ann'), 'nothing was changed');
    await page.keyboard.press('Control+a');
    await page.keyboard.type(NEW);
    await page.keyboard.press('Enter');
    await dialog.getByText('The password of ann is changed, and this page goes on').waitFor();
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    equal([await isKnown(server, NEW), await isKnown(server, 'ann')], [true, false], 'new and old password');

    await page.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name: 'SQL', exact: true }).click();
    await page.getByRole('textbox', { name: 'SQL' }).click();
    await page.keyboard.type("SELECT current_user || ' goes on' AS who");
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+Enter');
    await page.getByText('ann goes on').waitFor();

    const log = await server.sql('SELECT query, error FROM system.query_log', ADMIN);
    check(log.length > 0 && !JSON.stringify(log).includes('Größer'), 'the log of the server is without the password');
    const kept = await page.evaluate(
      () => `${JSON.stringify(localStorage)} ${JSON.stringify(sessionStorage)} ${location.href}`,
    );
    const places = [kept, ...seen].filter((text) => /Größer|Gr%C3%B6/.test(text));
    equal(places, [], 'places with the password');
    await page.getByRole('button', { name: 'History' }).click();
    equal(await page.getByText('ALTER USER').count(), 0, 'statements in the history');
  });
});

test('password: the current one is asked, and must be right', async (world) => {
  const { page, expectRefusals } = world;
  expectRefusals();
  await asAnn(world, async ({ server }) => {
    const dialog = page.getByRole('dialog');
    const alert = dialog.getByRole('alert');
    await openDialog(world);
    for (const [entries, expected] of [
      [['', 'new'], 'Enter the current password.'],
      [['ann', ''], 'Enter the new password.'],
      [['ann', 'ann'], 'The new password is the current one.'],
      [['ann', 'SCRAM-SHA-256$x'], 'A password cannot begin with'],
      [['wrong', 'new'], 'the current password is wrong'],
    ] as const) {
      await change(world, entries[0], entries[1]);
      await alert.getByText(expected).waitFor();
      check(await isKnown(server, 'ann'), `nothing was changed by ${entries}`);
    }
    equal(await dialog.getByLabel('Current password').inputValue(), '', 'the wrong password is gone');
    await page.keyboard.type('ann');
    await page.keyboard.press('Enter');
    await dialog.getByText('is changed, and this page goes on').waitFor();
    check(await isKnown(server, 'new'), 'the new password');
  });
});

test('password: requests that are refused while it changes are sent again', async (world) => {
  const { page, expectRefusals } = world;
  expectRefusals();
  await asAnn(world, async () => {
    let refused = 0;
    page.on('response', (response) => {
      if (response.status() === 401 && response.url().endsWith('/metrics')) refused += 1;
    });
    await page.route('**/api/v1/token', async (route) => {
      await eventually(async () => check(refused > 0, 'the first screen asks in the meantime'));
      await route.continue();
    });
    await openDialog(world);
    await change(world, 'ann', 'new');
    await page.getByRole('dialog').getByText('is changed, and this page goes on').waitFor();
    equal(await page.getByRole('form', { name: 'Log in' }).count(), 0, 'forms to log in');
    await page.getByRole('button', { name: 'Close', exact: true }).last().click();
    await page.waitForTimeout(2500);
    equal(await page.getByRole('button', { name: 'Log out' }).count(), 1, 'the page is still logged in');
  });
});

test('password: a server that fails in the middle', async (world) => {
  const { page, expectRefusals } = world;
  expectRefusals();
  await asAnn(world, async ({ server, proxy }) => {
    const dialog = page.getByRole('dialog');
    await openDialog(world);
    proxy.isDead = true;
    await change(world, 'ann', 'two');
    await dialog.getByRole('alert').getByText('the password may be changed or not').waitFor();
    proxy.isDead = false;
    check(await isKnown(server, 'ann'), 'nothing was changed');

    // The change arrives, and its answer is lost.
    await page.route('**/api/v1/query', async (route) => {
      if (!route.request().postData()?.includes('ALTER USER')) return route.continue();
      await route.fetch();
      return route.abort();
    });
    await change(world, 'ann', 'two');
    await dialog.getByText('is changed, and this page goes on').waitFor();
    await page.keyboard.press('Enter');
    await page.unroute('**/api/v1/query');

    // It is changed, and the login with it fails.
    await page.route('**/api/v1/token', (route) => route.abort());
    await openDialog(world);
    await change(world, 'two', 'three');
    await dialog.getByText('is changed, but this page could not log in').waitFor();
    await page.unroute('**/api/v1/token');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await logIn(page, 'three');
    await page.getByRole('heading', { name: 'Home' }).waitFor();
  });
});
