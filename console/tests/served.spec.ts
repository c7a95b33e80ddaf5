// The console as the server itself serves it.

import { check, equal, test } from './harness';

test('served: the server has a console, which loads nothing from other hosts', async ({ server, page }) => {
  const at = (path: string) => fetch(`${server.url}${path}`, { redirect: 'manual' });
  for (const path of ['/', '/console']) equal((await at(path)).headers.get('location'), '/console/', path);
  const answer = await at('/console/');
  check(answer.headers.get('content-security-policy')?.includes("default-src 'self'"), 'a policy');
  equal(answer.headers.get('cache-control'), 'no-cache');
  const assets = [...(await answer.text()).matchAll(/"(\/console\/assets\/[^"]+)"/g)].map(([, path]) => path ?? '');
  check(assets.length > 0, 'the page names its assets');
  for (const path of assets) {
    const asset = await at(path);
    equal([asset.status, asset.headers.get('cache-control')?.includes('immutable')], [200, true], path);
  }
  equal((await at('/console/assets/of-another-version.js')).status, 404);
  page.removeAllListeners('request');
  await page.goto(`${server.url}/console/#/cubes`);
  await page.getByRole('link', { name: 'takings', exact: true }).waitFor();
});
