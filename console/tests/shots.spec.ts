// Pictures of every screen, for people to look at.

import { SCREENS } from './screens.spec';
import { test } from './harness';

const SQL =
  '#/sql?q=SELECT%20country%2C%20city%2C%20sum(amount)%20AS%20total%2C%20count(*)%20AS%20sales%0AFROM%20sales%20JOIN%20shops%20USING%20(shop)%0AGROUP%20BY%20country%2C%20city%0AORDER%20BY%20total%20DESC';

test('shots: every screen, light and dark, wide and narrow', async ({ page, open, shot }) => {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    for (const [name, hash] of SCREENS) {
      await open(name === 'sql' ? SQL : hash);
      if (name === 'sql') {
        await page.getByRole('button', { name: 'Run', exact: true }).click();
        await page.getByRole('region', { name: 'Route' }).waitFor();
      }
      await page.waitForTimeout(name === 'home' ? 6500 : 500);
      await shot(`${name}-${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 390, height: 844 });
  for (const [name, hash] of SCREENS) {
    await open(name === 'sql' ? SQL : hash);
    await page.waitForTimeout(500);
    await shot(`${name}-narrow`);
  }
});
