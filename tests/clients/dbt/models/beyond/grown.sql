{{ config(materialized='incremental', unique_key='id', on_schema_change='append_new_columns', incremental_predicates=["DBT_INTERNAL_DEST.id > 0"], incremental_strategy='merge') }}
select id, amount {% if is_incremental() %}, placed::date as day {% endif %} from {{ ref('short_lived') }}
