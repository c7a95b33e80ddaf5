{% snapshot kept_by_value %}
{{ config(unique_key='id', strategy='check', check_cols=['name', 'country'], hard_deletes='new_record') }}
select * from {{ ref('customers') }}
{% endsnapshot %}
