{{ config(materialized='table', contract={'enforced': true}, indexes=[{'columns': ['id'], 'unique': True}]) }}
select id, name from {{ ref('customers') }}
