-- The queries of ssb.sql on cuboids kept as tables (see cuboids.sql), for servers without cubes. The same seed draws
-- the same values.
-- param region: AFRICA | AMERICA | ASIA | EUROPE | MIDDLE EAST
-- A nation with its region, and its first nine letters, which its ten cities begin with.
-- param (nation, nation_region, stem):
--   (ALGERIA, AFRICA, 'ALGERIA  ') | (ARGENTINA, AMERICA, 'ARGENTINA') | (BRAZIL, AMERICA, 'BRAZIL   ')
--   | (CANADA, AMERICA, 'CANADA   ') | (EGYPT, MIDDLE EAST, 'EGYPT    ') | (ETHIOPIA, AFRICA, 'ETHIOPIA ')
--   | (FRANCE, EUROPE, 'FRANCE   ') | (GERMANY, EUROPE, 'GERMANY  ') | (INDIA, ASIA, 'INDIA    ')
--   | (INDONESIA, ASIA, 'INDONESIA') | (IRAN, MIDDLE EAST, 'IRAN     ') | (IRAQ, MIDDLE EAST, 'IRAQ     ')
--   | (JAPAN, ASIA, 'JAPAN    ') | (JORDAN, MIDDLE EAST, 'JORDAN   ') | (KENYA, AFRICA, 'KENYA    ')
--   | (MOROCCO, AFRICA, 'MOROCCO  ') | (MOZAMBIQUE, AFRICA, 'MOZAMBIQU') | (PERU, AMERICA, 'PERU     ')
--   | (CHINA, ASIA, 'CHINA    ') | (ROMANIA, EUROPE, 'ROMANIA  ')
--   | (SAUDI ARABIA, MIDDLE EAST, 'SAUDI ARA') | (VIETNAM, ASIA, 'VIETNAM  ')
--   | (RUSSIA, EUROPE, 'RUSSIA   ') | (UNITED KINGDOM, EUROPE, 'UNITED KI')
--   | (UNITED STATES, AMERICA, 'UNITED ST')
-- param (month, month_name):
--   (1, Jan) | (2, Feb) | (3, Mar) | (4, Apr) | (5, May) | (6, Jun) | (7, Jul) | (8, Aug) | (9, Sep)
--   | (10, Oct) | (11, Nov) | (12, Dec)
-- The last year of orders ends in August, so that queries of a month or of two years ask for earlier ones.
-- param any_year: 1992..1998
-- param year: 1992..1997
-- param next_year: year + 1
-- Six of the seven years, as in the paper.
-- param from_year: 1992..1993
-- param to_year: from_year + 5
-- param discount: 0..8
-- param to_discount: discount + 2
-- param quantity: 1..41
-- param to_quantity: quantity + 9
-- param category: 1..5
-- param manufacturer: 1..4
-- param other_manufacturer: manufacturer + 1
-- param mfgr: 'MFGR#{manufacturer}'
-- param other_mfgr: 'MFGR#{other_manufacturer}'
-- param p_category: '{mfgr}{category}'
-- param tens: 1..3
-- param brand: 1..40

-- name: Q1.1
-- columns: 1
-- param half: 24..26
SELECT sum(price_discount) AS revenue
FROM by_year_discount
WHERE d_year = {{any_year}}
  AND lo_discount BETWEEN {{discount}} AND {{to_discount}}
  AND lo_quantity < {{half}};

-- name: Q1.2
-- columns: 1
-- param yearmonth: year * 100 + month
SELECT sum(price_discount) AS revenue
FROM by_month_discount
WHERE d_yearmonthnum = {{yearmonth}}
  AND lo_discount BETWEEN {{discount}} AND {{to_discount}}
  AND lo_quantity BETWEEN {{quantity}} AND {{to_quantity}};

-- name: Q1.3
-- columns: 1
-- param week: 1..52
SELECT sum(price_discount) AS revenue
FROM by_week_discount
WHERE d_weeknuminyear = {{week}}
  AND d_year = {{year}}
  AND lo_discount BETWEEN {{discount}} AND {{to_discount}}
  AND lo_quantity BETWEEN {{quantity}} AND {{to_quantity}};

-- name: Q2.1
-- columns: 3
SELECT sum(revenue), d_year, p_brand1
FROM by_brand
WHERE p_category = {{p_category}}
  AND s_region = {{region}}
GROUP BY d_year, p_brand1
ORDER BY d_year, p_brand1;

-- name: Q2.2
-- columns: 3
-- param low_brand: '{p_category}{tens}1'
-- param high_brand: '{p_category}{tens}8'
SELECT sum(revenue), d_year, p_brand1
FROM by_brand
WHERE p_brand1 BETWEEN {{low_brand}} AND {{high_brand}}
  AND s_region = {{region}}
GROUP BY d_year, p_brand1
ORDER BY d_year, p_brand1;

-- name: Q2.3
-- columns: 3
-- param one_brand: '{p_category}{brand}'
SELECT sum(revenue), d_year, p_brand1
FROM by_brand
WHERE p_brand1 = {{one_brand}}
  AND s_region = {{region}}
GROUP BY d_year, p_brand1
ORDER BY d_year, p_brand1;

-- name: Q3.1
-- columns: 4
SELECT c_nation, s_nation, d_year, sum(revenue) AS revenue
FROM by_nations
WHERE c_region = {{region}}
  AND s_region = {{region}}
  AND d_year >= {{from_year}}
  AND d_year <= {{to_year}}
GROUP BY c_nation, s_nation, d_year
ORDER BY d_year ASC, revenue DESC;

-- name: Q3.2
-- columns: 4
SELECT c_city, s_city, d_year, sum(revenue) AS revenue
FROM by_cities
WHERE c_nation = {{nation}}
  AND s_nation = {{nation}}
  AND d_year >= {{from_year}}
  AND d_year <= {{to_year}}
GROUP BY c_city, s_city, d_year
ORDER BY d_year ASC, revenue DESC;

-- name: Q3.3
-- columns: 4
-- param city_digit: 0..4
-- param other_digit: 5..9
-- param city: '{stem}{city_digit}'
-- param other_city: '{stem}{other_digit}'
SELECT c_city, s_city, d_year, sum(revenue) AS revenue
FROM by_cities
WHERE (c_city = {{city}} OR c_city = {{other_city}})
  AND (s_city = {{city}} OR s_city = {{other_city}})
  AND d_year >= {{from_year}}
  AND d_year <= {{to_year}}
GROUP BY c_city, s_city, d_year
ORDER BY d_year ASC, revenue DESC;

-- name: Q3.4
-- columns: 4
-- param city_digit: 0..4
-- param other_digit: 5..9
-- param city: '{stem}{city_digit}'
-- param other_city: '{stem}{other_digit}'
-- param yearmonth: '{month_name}{year}'
SELECT c_city, s_city, d_year, sum(revenue) AS revenue
FROM by_cities_month
WHERE (c_city = {{city}} OR c_city = {{other_city}})
  AND (s_city = {{city}} OR s_city = {{other_city}})
  AND d_yearmonth = {{yearmonth}}
GROUP BY c_city, s_city, d_year
ORDER BY d_year ASC, revenue DESC;

-- name: Q4.1
-- columns: 3
SELECT d_year, c_nation, sum(profit) AS profit
FROM by_customer_nation_mfgr
WHERE c_region = {{region}}
  AND s_region = {{region}}
  AND (p_mfgr = {{mfgr}} OR p_mfgr = {{other_mfgr}})
GROUP BY d_year, c_nation
ORDER BY d_year, c_nation;

-- name: Q4.2
-- columns: 4
SELECT d_year, s_nation, p_category, sum(profit) AS profit
FROM by_supplier_nation_category
WHERE c_region = {{region}}
  AND s_region = {{region}}
  AND (d_year = {{year}} OR d_year = {{next_year}})
  AND (p_mfgr = {{mfgr}} OR p_mfgr = {{other_mfgr}})
GROUP BY d_year, s_nation, p_category
ORDER BY d_year, s_nation, p_category;

-- name: Q4.3
-- columns: 4
SELECT d_year, s_city, p_brand1, sum(profit) AS profit
FROM by_supplier_city_brand
WHERE c_region = {{nation_region}}
  AND s_nation = {{nation}}
  AND (d_year = {{year}} OR d_year = {{next_year}})
  AND p_category = {{p_category}}
GROUP BY d_year, s_city, p_brand1
ORDER BY d_year, s_city, p_brand1;
