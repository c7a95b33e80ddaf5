// Statements that a new database begins with.

/** A table over files that lie where they are. */
export const FILES_SQL = `CREATE EXTERNAL TABLE visits STORED AS PARQUET LOCATION '/data/visits/';
DESCRIBE visits;
SELECT count(*) FROM visits;`;

export const FILES_WITHOUT_TABLE_SQL = "SELECT * FROM '/data/visits/*.parquet' LIMIT 100;";

export const LIVE_TABLE_SQL = `CREATE LIVE TABLE prices (
  shop INT, item TEXT, cents BIGINT NOT NULL, since TIMESTAMP DEFAULT now(),
  PRIMARY KEY (shop, item)
);
INSERT INTO prices (shop, item, cents) VALUES (1, 'tea', 250), (1, 'milk', 120);
SELECT * FROM prices;`;

export const SAMPLE = { schema: 'public', table: 'sample_sales', cube: 'sample_cube' };

/** Prices and countries are of no meaning, and the same each time. */
export const SAMPLE_TABLE_SQL = `CREATE LIVE TABLE sample_sales (PRIMARY KEY (id)) AS
SELECT n AS id,
       DATE '2026-01-01' + CAST(n % 365 AS INT) AS day,
       CASE n * 7 % 4 WHEN 0 THEN 'Norway' WHEN 1 THEN 'Peru' WHEN 2 THEN 'Chile' ELSE 'Kenya' END AS country,
       'product ' || (n * 31 % 25) AS product,
       1 + n % 5 AS pieces,
       n * 7919 % 10000 AS cents
FROM generate_series(1, 200000) n`;

export const SAMPLE_CUBE_SQL = `CREATE CUBE sample_cube AS
SELECT day, country, product, sum(cents), sum(pieces), count(*)
FROM sample_sales
GROUP BY CUBE (day, country, product);
BUILD CUBE sample_cube`;

export const SAMPLE_QUERY_SQL = `SELECT country, sum(cents) AS cents, count(*) AS sales
FROM sample_sales
WHERE day >= DATE '2026-06-01'
GROUP BY country
ORDER BY cents DESC`;

export const DROP_SAMPLE_SQL = `DROP CUBE IF EXISTS sample_cube;
DROP TABLE IF EXISTS sample_sales`;

/** Tables of users. */
export const TABLES_SQL = `SELECT table_schema, table_name
FROM information_schema.tables
WHERE table_schema NOT IN ('information_schema', 'pg_catalog', 'system')`;
