-- Cubes that a person would make for the reports of TPC-H. Each is named after what it tells, and holds what
-- the queries named beside it group by and filter on; dates are cut to the months or years that they ask for.

-- Q1: what was shipped until a day. Q6: what discounts cost in a year.
CREATE CUBE pricing AS
SELECT l_returnflag, l_linestatus, l_shipdate, l_discount, l_quantity, date_trunc('year', l_shipdate) AS ship_year,
       sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), sum(l_discount),
       avg(l_quantity), avg(l_extendedprice), avg(l_discount), sum(l_extendedprice * l_discount), count(*)
FROM lineitem
GROUP BY GROUPING SETS (
    (l_shipdate, l_returnflag, l_linestatus),                                   -- Q1
    (date_trunc('year', l_shipdate), l_discount, l_quantity)                    -- Q6
);

-- Q3: unshipped orders of a market segment. Q18: large orders.
CREATE CUBE orders_by_key AS
SELECT l_orderkey, o_orderdate, o_shippriority, c_mktsegment, l_shipdate, c_name, c_custkey, o_totalprice,
       sum(l_extendedprice * (1 - l_discount)), sum(l_quantity)
FROM lineitem
JOIN orders   ON l_orderkey = o_orderkey
JOIN customer ON o_custkey  = c_custkey
GROUP BY GROUPING SETS (
    (l_orderkey, o_orderdate, o_shippriority, c_mktsegment, l_shipdate),        -- Q3
    (l_orderkey, o_orderdate, o_totalprice, c_name, c_custkey)                  -- Q18
);

-- Q5: sales between countrymen. Q7: trade of two nations.
CREATE CUBE trade AS
SELECT s_nation.n_name AS supplier_nation, c_nation.n_name AS customer_nation,
       s_nationkey, c_nationkey, r_name, date_trunc('year', o_orderdate) AS order_year,
       date_trunc('year', l_shipdate) AS ship_year,
       sum(l_extendedprice * (1 - l_discount))
FROM lineitem
JOIN orders   ON l_orderkey = o_orderkey
JOIN customer ON o_custkey  = c_custkey
JOIN supplier ON l_suppkey  = s_suppkey
JOIN nation s_nation ON s_nationkey = s_nation.n_nationkey
JOIN nation c_nation ON c_nationkey = c_nation.n_nationkey
JOIN region ON s_nation.n_regionkey = r_regionkey
GROUP BY GROUPING SETS (
    (date_trunc('year', o_orderdate), s_nation.n_name, s_nationkey, c_nationkey, r_name),  -- Q5
    (date_trunc('year', l_shipdate), s_nation.n_name, c_nation.n_name)                     -- Q7
);

-- Q8: a nation's share of a market, by type of part.
CREATE CUBE market AS
SELECT date_trunc('year', o_orderdate) AS order_year, p_type, r_name, s_nation.n_name AS nation,
       sum(l_extendedprice * (1 - l_discount)), count(*)
FROM lineitem
JOIN part     ON l_partkey  = p_partkey
JOIN orders   ON l_orderkey = o_orderkey
JOIN customer ON o_custkey  = c_custkey
JOIN supplier ON l_suppkey  = s_suppkey
JOIN nation c_nation ON c_nationkey = c_nation.n_nationkey
JOIN region ON c_nation.n_regionkey = r_regionkey
JOIN nation s_nation ON s_nationkey = s_nation.n_nationkey
GROUP BY date_trunc('year', o_orderdate), p_type, r_name, s_nation.n_name;

-- Q9: profit by nation and year for parts of any name.
CREATE CUBE profit AS
SELECT n_name, date_trunc('year', o_orderdate) AS order_year, p_name,
       sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity)
FROM lineitem
JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
JOIN part     ON l_partkey = p_partkey
JOIN supplier ON l_suppkey = s_suppkey
JOIN orders   ON l_orderkey = o_orderkey
JOIN nation   ON s_nationkey = n_nationkey
GROUP BY n_name, date_trunc('year', o_orderdate), p_name;

-- Q10: who sent goods back. Customer's columns are found by its key.
CREATE CUBE returns AS
SELECT o_custkey, date_trunc('month', o_orderdate) AS order_month, l_returnflag,
       sum(l_extendedprice * (1 - l_discount))
FROM lineitem
JOIN orders ON l_orderkey = o_orderkey
GROUP BY o_custkey, date_trunc('month', o_orderdate), l_returnflag;

-- Q12: late deliveries by mode and priority.
CREATE CUBE shipping AS
SELECT l_shipmode, o_orderpriority, date_trunc('year', l_receiptdate) AS receipt_year,
       l_commitdate < l_receiptdate AS late, l_shipdate < l_commitdate AS shipped_in_time, count(*)
FROM lineitem
JOIN orders ON l_orderkey = o_orderkey
GROUP BY l_shipmode, o_orderpriority, date_trunc('year', l_receiptdate), l_commitdate < l_receiptdate,
         l_shipdate < l_commitdate;

-- Q14: what promotions bring in a month. Q19: what some brands bring.
CREATE CUBE parts AS
SELECT date_trunc('month', l_shipdate) AS ship_month, p_type, p_brand, p_container, p_size, l_quantity,
       l_shipmode, l_shipinstruct, sum(l_extendedprice * (1 - l_discount)), count(*)
FROM lineitem
JOIN part ON l_partkey = p_partkey
GROUP BY GROUPING SETS (
    (date_trunc('month', l_shipdate), p_type),                                  -- Q14
    (p_brand, p_container, p_size, l_quantity, l_shipmode, l_shipinstruct)      -- Q19
);
