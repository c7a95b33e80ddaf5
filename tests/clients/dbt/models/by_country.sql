{{ config(materialized='table', indexes=[{'columns': ['country']}]) }}
select country, count(*) as n, sum(amount) as total, max(placed) as newest from {{ ref('short_lived') }} group by 1
