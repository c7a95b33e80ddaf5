{{ config(materialized='table', contract={'enforced': true}) }}
select id from {{ ref('customers') }}
