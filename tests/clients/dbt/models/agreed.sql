{{ config(materialized='table', contract={'enforced': true}) }}
select id, name, since, active from {{ ref('customers') }}
