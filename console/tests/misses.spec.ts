// The main story: of ten queries find the one that no cube answers, see why, and make a cube that answers it.

import { check, eventually, test } from './harness';

const ANSWERED = ['country', 'kind', 'country, city', 'country, kind', 'city, country, kind', 'kind, country'];
const MISSED = 'SELECT kind, min(amount), max(amount) FROM sales JOIN shops USING (shop) GROUP BY kind';

test('story: from a missed query to a cube that answers it', async ({ page, open, server, shot }) => {
  const queries = ANSWERED.map(
    (groups) => `SELECT ${groups}, sum(amount) FROM sales JOIN shops USING (shop) GROUP BY ${groups}`,
  );
  queries.push("SELECT sum(amount) FROM sales JOIN shops USING (shop) WHERE country = 'Peru'");
  queries.push("SELECT count(*) FROM sales JOIN shops USING (shop) WHERE kind = 'kind 3'");
  queries.push(
    "SELECT city, sum(amount) / count(*) FROM sales JOIN shops USING (shop) WHERE country = 'Chile' GROUP BY city",
  );
  queries.splice(4, 0, MISSED);
  for (const sql of queries) await server.sql(sql);
  // The history is written in the background.
  await eventually(async () => {
    const misses = await server.sql("SELECT query FROM system.query_history WHERE misses > 0 AND query LIKE '%max%'");
    check(misses.length > 0, 'the miss is in the history');
  });

  let clicks = 0;
  const click = async (role: 'link' | 'button', name: string) => {
    await page.getByRole(role, { name, exact: true }).first().click();
    clicks += 1;
  };
  await open('#/');
  await click('link', 'Misses');
  const row = page.getByRole('listitem').filter({ hasText: 'min(amount), max(amount)' });
  await row.getByText(/it has no measure/).waitFor();
  await shot('misses');
  await row.getByRole('button', { name: 'Find a cube' }).click();
  clicks += 1;
  await click('button', 'Recommend a cube');
  await page.getByRole('button', { name: 'Create and build it' }).first().waitFor();
  await shot('misses-proposed');
  await click('button', 'Create and build it');
  const gain = page.locator('.gain');
  await gain.waitFor({ timeout: 60_000 });
  const text = await gain.textContent();
  check(text?.includes('Answered from') || text?.includes('answered from'), `the gain names the cube: ${text}`);
  await shot('misses-gain');
  check(clicks <= 4, `${clicks} clicks`);
  console.log(`       the story took ${clicks} clicks`);
});
