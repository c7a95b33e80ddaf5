{% snapshot kept_by_time %}
{{ config(unique_key='id', strategy='timestamp', updated_at='placed', hard_deletes='invalidate') }}
select * from {{ ref('orders') }}
{% endsnapshot %}
