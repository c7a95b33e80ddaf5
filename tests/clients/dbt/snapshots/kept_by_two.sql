{% snapshot kept_by_two %}
{{ config(unique_key=['id', 'customer'], strategy='check', check_cols=['amount'], hard_deletes='invalidate', dbt_valid_to_current="to_date('9999-12-31', 'YYYY-MM-DD')") }}
select id, customer, amount from {{ ref('orders') }}
{% endsnapshot %}
