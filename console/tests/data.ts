// The small data of the tests: a shop's sales, with one cube over them.

import type { Nyala } from './nyala';

export const ROWS = 60_000;

const STATEMENTS = [
  'CREATE TABLE shops (shop INT, city TEXT, country TEXT, PRIMARY KEY (shop))',
  `INSERT INTO shops SELECT n, 'city ' || (n % 12), CASE WHEN n % 3 = 0 THEN 'Norway' WHEN n % 3 = 1 THEN 'Peru' ELSE 'Chile' END
   FROM generate_series(1, 40) n`,
  'CREATE TABLE sales (id BIGINT, shop INT, day DATE, kind TEXT, amount BIGINT, PRIMARY KEY (id))',
  `INSERT INTO sales SELECT n, 1 + n % 40, DATE '2026-01-01' + CAST(n % 90 AS INT), 'kind ' || (n % 5), (n * 7919) % 1000
   FROM generate_series(1, ${ROWS}) n`,
  `CREATE CUBE takings WITH (auto_refresh = off) AS
   SELECT city, country, kind, sum(amount), count(*)
   FROM sales JOIN shops USING (shop)
   GROUP BY ROLLUP (country, city), CUBE (kind)`,
  'BUILD CUBE takings',
  'CREATE SCHEMA "Odd names"',
  `CREATE TABLE "Odd names"."a table's ""name""" ("Key" INT, "two words" TEXT, "quo""te" BIGINT, PRIMARY KEY ("Key"))`,
  `INSERT INTO "Odd names"."a table's ""name""" VALUES (1, 'it''s', 9007199254740993), (2, NULL, -1)`,
];

export async function seed(server: Nyala): Promise<void> {
  for (const statement of STATEMENTS) await server.sql(statement);
}
