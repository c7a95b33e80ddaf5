{% macro cents(x) %}({{ x }} * 100)::int{% endmacro %}
{% macro tables_of(schema) %}
  {% for r in adapter.dispatch("list_relations_without_caching", "dbt")(api.Relation.create(database=target.database, schema=schema)).rows | sort(attribute="1") %}{{ print(r["type"] ~ " " ~ r["name"]) }}{% endfor %}
  {% for c in adapter.get_columns_in_relation(ref('agreed')) %}{{ print(c.name ~ ' ' ~ c.data_type) }}{% endfor %}
  {% for row in run_query("select distinct country from " ~ ref('customers') ~ " order by 1").rows %}{{ print(row[0]) }}{% endfor %}
{% endmacro %}
