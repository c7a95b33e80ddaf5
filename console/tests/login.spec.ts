// A server that asks for passwords.

import { check, equal, test } from './harness';
import { asUser, startWithPasswords } from './nyala';
import { Proxy } from './proxy';

test('login: password, token, refusals of a user who is no superuser', async ({ page, expectRefusals, shot }) => {
  expectRefusals();
  const server = await startWithPasswords('admin', 'secret');
  const front = await Proxy.start(server.url);
  const logIn = async (user: string, password: string) => {
    await page.getByLabel('User').fill(user);
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Log in' }).click();
  };
  page.removeAllListeners('request');
  try {
    await page.goto(`${front.url}/console/#/users`);
    await logIn('admin', 'wrong');
    await page.getByRole('alert').waitFor();
    await shot('login');
    await logIn('admin', 'secret');
    await page.getByRole('heading', { name: 'Users', exact: true }).waitFor();
    equal(await page.evaluate(() => JSON.stringify(localStorage).includes('secret')), false);
    await server.sql("CREATE USER ann PASSWORD 'ann'", asUser('admin', 'secret'));
    await page.getByRole('button', { name: 'Log out' }).click();
    await logIn('ann', 'ann');
    await page.getByRole('link', { name: 'Queries' }).click();
    await page.getByRole('note').getByText('Most tables about the server are for superusers').first().waitFor();
    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByText(/of 7 checks are for superusers/).waitFor();
    check(await page.getByRole('button', { name: 'Log out' }).isVisible(), 'one can log out');
    await shot('refused');
  } finally {
    front.stop();
    await server.stop();
  }
});
