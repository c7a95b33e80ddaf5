{{ config(materialized='table') }}
select id, 1.5::numeric(12,2) as n, 'x'::text as t, 'y'::varchar(20) as v, date '2024-01-01' as d, timestamp '2024-01-01' as ts, timestamptz '2024-01-01 00:00:00+00' as tz, true as b, 0.5::float8 as f, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid as u, 0.5::real as r, 1::smallint as s, array[1,2]::int[] as a from {{ ref('orders') }}
