{{ config(materialized='table', grants={'select': ['shop_reader']}, alias='Odd Name', schema='other') }}
select 1 as "Upper", 2 as "with space"
