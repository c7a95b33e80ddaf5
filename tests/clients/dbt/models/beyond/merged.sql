{{ config(materialized='incremental', unique_key=['id', 'country'], incremental_strategy='merge', merge_update_columns=['run']) }}
select id, country, amount, {{ 2 if is_incremental() else 1 }} as run from {{ ref('short_lived') }}
{% if is_incremental() %} where id > 11 {% endif %}
