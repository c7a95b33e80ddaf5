{{ config(materialized='table', unlogged=true) }}
select 1 as one
