{{ config(materialized='incremental') }}
select id, amount from {{ ref('short_lived') }}
{% if is_incremental() %} where id > (select coalesce(max(id), 0) - 1 from {{ this }}) {% endif %}
