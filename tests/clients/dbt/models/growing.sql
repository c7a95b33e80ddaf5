{{ config(materialized='incremental', unique_key=['id'], on_schema_change='sync_all_columns') }}
select id, amount {% if is_incremental() %}, placed::date as day, 'x'::varchar(10) as mark {% else %}, country {% endif %} from {{ ref('short_lived') }}
