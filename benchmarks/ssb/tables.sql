-- The tables of the Star Schema Benchmark over the files that `nyala gen ssb --out ${DATA}` writes.
-- Put the location, without a slash at its end, in the place of ${DATA}. The paper's table `date` is
-- called `dates`, because DATE is a reserved word.

CREATE EXTERNAL TABLE lineorder STORED AS PARQUET LOCATION '${DATA}/lineorder/';
CREATE EXTERNAL TABLE customer STORED AS PARQUET LOCATION '${DATA}/customer/';
CREATE EXTERNAL TABLE supplier STORED AS PARQUET LOCATION '${DATA}/supplier/';
CREATE EXTERNAL TABLE part STORED AS PARQUET LOCATION '${DATA}/part/';
CREATE EXTERNAL TABLE dates STORED AS PARQUET LOCATION '${DATA}/dates/';
