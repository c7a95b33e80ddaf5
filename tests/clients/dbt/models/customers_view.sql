{{ config(materialized='view') }}
select *, upper(country) as land from {{ ref('customers') }} where since >= '2024-01-01'
