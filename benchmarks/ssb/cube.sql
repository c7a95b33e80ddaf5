-- The cube behind the 13 queries. Each grouping set serves the queries named beside it; a set holds what
-- they group by and filter on, and nothing more.
CREATE CUBE IF NOT EXISTS ssb AS
SELECT d_year, d_yearmonthnum, d_yearmonth, d_weeknuminyear, lo_discount, lo_quantity,
       c_region, c_nation, c_city, s_region, s_nation, s_city, p_mfgr, p_category, p_brand1,
       sum(lo_extendedprice * lo_discount), sum(lo_revenue), sum(lo_revenue - lo_supplycost), count(*)
FROM lineorder
JOIN dates    ON lo_orderdate = d_datekey
JOIN customer ON lo_custkey   = c_custkey
JOIN supplier ON lo_suppkey   = s_suppkey
JOIN part     ON lo_partkey   = p_partkey
GROUP BY GROUPING SETS (
    (d_year, lo_discount, lo_quantity),                             -- Q1.1
    (d_yearmonthnum, lo_discount, lo_quantity),                     -- Q1.2
    (d_year, d_weeknuminyear, lo_discount, lo_quantity),            -- Q1.3
    (d_year, s_region, p_category, p_brand1),                       -- Q2.1, Q2.2, Q2.3
    (d_year, c_region, c_nation, s_region, s_nation),               -- Q3.1
    (d_year, c_nation, c_city, s_nation, s_city),                   -- Q3.2, Q3.3
    (d_year, d_yearmonth, c_city, s_city),                          -- Q3.4
    (d_year, c_region, c_nation, s_region, p_mfgr),                 -- Q4.1
    (d_year, c_region, s_region, s_nation, p_mfgr, p_category),     -- Q4.2
    (d_year, c_region, s_nation, s_city, p_category, p_brand1)      -- Q4.3
);
