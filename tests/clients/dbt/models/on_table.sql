{{ config(materialized='view') }}
select * from {{ ref('by_country') }} where n > 0
