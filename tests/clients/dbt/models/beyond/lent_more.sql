{{ config(materialized='incremental', grants={'select': ['shop_reader'], 'insert': ['shop_reader']}) }}
select 1 as one
