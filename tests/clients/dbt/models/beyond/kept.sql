{{ config(materialized='materialized_view') }}
select country, count(*) as n from {{ ref('customers') }} group by country
