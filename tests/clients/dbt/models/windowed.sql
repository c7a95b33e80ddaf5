with ranked as (select *, row_number() over (partition by country order by since desc) as r, date_trunc('month', since)::date as month from {{ ref('customers_view') }}),
spine as (select generate_series('2024-01-01'::date, '{{ var("day") }}'::date, '1 week'::interval)::date as week)
select r.country, r.name, s.week, {{ cents('7.5') }} as cents from ranked r cross join spine s where r.r = 1
