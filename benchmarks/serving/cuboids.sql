-- The cuboids of ../ssb/cube.sql as SELECTs, which Nyala answers from the cube. A table of PostgreSQL or DuckDB
-- is made of each, called as the comment says and with an index for each list of columns after it.

-- by_year_discount: d_year, lo_discount, lo_quantity
SELECT d_year, lo_discount, lo_quantity,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
GROUP BY d_year, lo_discount, lo_quantity;

-- by_month_discount: d_yearmonthnum, lo_discount, lo_quantity
SELECT d_yearmonthnum, lo_discount, lo_quantity,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
GROUP BY d_yearmonthnum, lo_discount, lo_quantity;

-- by_week_discount: d_year, d_weeknuminyear, lo_discount, lo_quantity
SELECT d_year, d_weeknuminyear, lo_discount, lo_quantity,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
GROUP BY d_year, d_weeknuminyear, lo_discount, lo_quantity;

-- by_brand: s_region, p_category; s_region, p_brand1
SELECT d_year, s_region, p_category, p_brand1,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
JOIN supplier ON lo_suppkey = s_suppkey
JOIN part ON lo_partkey = p_partkey
GROUP BY d_year, s_region, p_category, p_brand1;

-- by_nations: c_region, s_region, d_year
SELECT d_year, c_region, c_nation, s_region, s_nation,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
JOIN customer ON lo_custkey = c_custkey
JOIN supplier ON lo_suppkey = s_suppkey
GROUP BY d_year, c_region, c_nation, s_region, s_nation;

-- by_cities: c_nation, s_nation, d_year; c_city, s_city, d_year
SELECT d_year, c_nation, c_city, s_nation, s_city,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
JOIN customer ON lo_custkey = c_custkey
JOIN supplier ON lo_suppkey = s_suppkey
GROUP BY d_year, c_nation, c_city, s_nation, s_city;

-- by_cities_month: d_yearmonth, c_city, s_city
SELECT d_year, d_yearmonth, c_city, s_city,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
JOIN customer ON lo_custkey = c_custkey
JOIN supplier ON lo_suppkey = s_suppkey
GROUP BY d_year, d_yearmonth, c_city, s_city;

-- by_customer_nation_mfgr: c_region, s_region, p_mfgr
SELECT d_year, c_region, c_nation, s_region, p_mfgr,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
JOIN customer ON lo_custkey = c_custkey
JOIN supplier ON lo_suppkey = s_suppkey
JOIN part ON lo_partkey = p_partkey
GROUP BY d_year, c_region, c_nation, s_region, p_mfgr;

-- by_supplier_nation_category: c_region, s_region, d_year, p_mfgr
SELECT d_year, c_region, s_region, s_nation, p_mfgr, p_category,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
JOIN customer ON lo_custkey = c_custkey
JOIN supplier ON lo_suppkey = s_suppkey
JOIN part ON lo_partkey = p_partkey
GROUP BY d_year, c_region, s_region, s_nation, p_mfgr, p_category;

-- by_supplier_city_brand: c_region, s_nation, p_category, d_year
SELECT d_year, c_region, s_nation, s_city, p_category, p_brand1,
       sum(lo_extendedprice * lo_discount) AS price_discount, sum(lo_revenue) AS revenue,
       sum(lo_revenue - lo_supplycost) AS profit, count(*) AS row_count
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
JOIN customer ON lo_custkey = c_custkey
JOIN supplier ON lo_suppkey = s_suppkey
JOIN part ON lo_partkey = p_partkey
GROUP BY d_year, c_region, s_nation, s_city, p_category, p_brand1;
