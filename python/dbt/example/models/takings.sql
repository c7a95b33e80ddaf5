{{ config(materialized='cube', options={'auto_refresh': false}) }}

SELECT kind, day, sum(amount), count(*)
FROM {{ ref('sales') }}
GROUP BY CUBE (kind, day);
