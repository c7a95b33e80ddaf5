{{ config(materialized='ephemeral') }}
select o.id, o.customer, o.amount, o.placed, c.country from {{ source('shop', 'orders') }} o join {{ ref('customers_view') }} c on c.id = o.customer
