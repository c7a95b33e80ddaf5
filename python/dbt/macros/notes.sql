{#- What dbt knows of the cubes that it made: the server does not tell the text that a cube was made from. -#}

{%- macro notes_table(relation) -%}
  {{ return(adapter.quote(relation.schema) ~ '.' ~ adapter.quote('nyala_cubes')) }}
{%- endmacro -%}


{%- macro cube_exists(relation) -%}
  {%- set query = 'SELECT cube FROM system.cubes WHERE schema = ' ~ nyala.literal(relation.schema) ~ ' AND cube = ' ~ nyala.literal(relation.identifier) -%}
  {{ return(run_query(query).rows | length > 0) }}
{%- endmacro -%}


{#- Definition and options of the cube as they were noted, or none. -#}
{%- macro noted_cube(relation) -%}
  {%- do run_query('CREATE LIVE TABLE IF NOT EXISTS ' ~ nyala.notes_table(relation) ~ ' (cube TEXT PRIMARY KEY, definition TEXT, options TEXT)') -%}
  {%- set query = 'SELECT definition, options FROM ' ~ nyala.notes_table(relation) ~ ' WHERE cube = ' ~ nyala.literal(relation.identifier) -%}
  {%- set rows = run_query(query).rows -%}
  {%- if rows | length == 0 -%}
    {{ return(none) }}
  {%- endif -%}
  {{ return({'definition': rows[0][0], 'options': fromjson(rows[0][1])}) }}
{%- endmacro -%}


{%- macro note_cube(relation, definition, options) -%}
  {%- set values = [relation.identifier, definition, tojson(options)] -%}
  {%- set literals = [] -%}
  {%- for value in values -%}
    {%- do literals.append(nyala.literal(value)) -%}
  {%- endfor -%}
  {%- do run_query('INSERT INTO ' ~ nyala.notes_table(relation) ~ ' (cube, definition, options) VALUES (' ~ literals | join(', ') ~ ')') -%}
{%- endmacro -%}
