{{ config(materialized='incremental', unique_key='id') }}
select id, amount, {{ 2 if is_incremental() else 1 }} as run from {{ ref('short_lived') }}
{% if is_incremental() %} where id > 12 {% endif %}
