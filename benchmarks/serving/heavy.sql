-- What an analyst runs beside the dashboards: all rows, and more groups than cubes hold.

-- name: scan
SELECT lo_quantity, count(*), sum(lo_extendedprice * lo_tax), max(lo_supplycost)
FROM lineorder GROUP BY lo_quantity;

-- name: join
SELECT c_name, sum(lo_revenue) AS revenue
FROM lineorder JOIN customer ON lo_custkey = c_custkey JOIN part ON lo_partkey = p_partkey
WHERE p_size < 25
GROUP BY c_name ORDER BY revenue DESC LIMIT 10;
