// Statements that a new database begins with.

/** A table over files that lie where they are. */
export const FILES_SQL = `CREATE EXTERNAL TABLE visits STORED AS PARQUET LOCATION '/data/visits/';
DESCRIBE visits;
SELECT count(*) FROM visits;`;
