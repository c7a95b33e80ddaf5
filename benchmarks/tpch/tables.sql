-- The tables of TPC-H over the files that `nyala gen tpch --out ${DATA}` writes. Put the location, without
-- a slash at its end, in the place of ${DATA}.

CREATE EXTERNAL TABLE lineitem STORED AS PARQUET LOCATION '${DATA}/lineitem/';
CREATE EXTERNAL TABLE orders STORED AS PARQUET LOCATION '${DATA}/orders/';
CREATE EXTERNAL TABLE partsupp STORED AS PARQUET LOCATION '${DATA}/partsupp/';
CREATE EXTERNAL TABLE part STORED AS PARQUET LOCATION '${DATA}/part/';
CREATE EXTERNAL TABLE customer STORED AS PARQUET LOCATION '${DATA}/customer/';
CREATE EXTERNAL TABLE supplier STORED AS PARQUET LOCATION '${DATA}/supplier/';
CREATE EXTERNAL TABLE nation STORED AS PARQUET LOCATION '${DATA}/nation/';
CREATE EXTERNAL TABLE region STORED AS PARQUET LOCATION '${DATA}/region/';
