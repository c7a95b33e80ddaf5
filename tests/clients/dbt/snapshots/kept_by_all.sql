{% snapshot kept_by_all %}
{{ config(unique_key='id', strategy='check', check_cols='all', hard_deletes='ignore') }}
select id, amount from {{ ref('orders') }}
{% endsnapshot %}
