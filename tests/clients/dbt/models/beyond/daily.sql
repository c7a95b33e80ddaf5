{{ config(materialized='incremental', incremental_strategy='microbatch', unique_key='id', event_time='placed', batch_size='month', begin='2024-01-01', lookback=1) }}
select id, placed, amount from {{ source('shop', 'orders') }}
