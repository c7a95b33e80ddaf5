{{ config(materialized='incremental', unique_key=['id', 'customer'], on_schema_change='append_new_columns', incremental_predicates=['id > 0']) }}
select id, customer, amount {% if is_incremental() %}, placed::date as day {% endif %} from {{ ref('orders') }}
