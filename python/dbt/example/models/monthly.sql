{{ config(
    materialized='cube',
    partition_by={'column': 'day', 'every': "INTERVAL '1 month'"},
    build_from=var('from'),
    build_to=var('to'),
) }}

SELECT day, sum(amount), count(*)
FROM {{ source('files', 'visits') }}
GROUP BY day
