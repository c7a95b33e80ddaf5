{{ config(materialized='table', persist_docs={'relation': true, 'columns': true}, post_hook="analyze {{ this }}", grants={'select': ['nyala']}) }}
select country, count(*) as n from {{ ref('customers') }} group by 1
