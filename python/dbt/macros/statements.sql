{#- Parts of statements about cubes. -#}

{%- macro cube_name(relation) -%}
  {{ return(adapter.quote(relation.schema) ~ '.' ~ adapter.quote(relation.identifier)) }}
{%- endmacro -%}


{%- macro cube_select(sql) -%}
  {{ return(sql.strip().rstrip(';').strip()) }}
{%- endmacro -%}


{%- macro cube_partitions() -%}
  {%- set partition_by = config.get('partition_by') -%}
  {%- if not partition_by -%}
    {{ return('') }}
  {%- endif -%}
  {{ return(' PARTITION BY RANGE (' ~ partition_by.column ~ ') EVERY ' ~ partition_by.every) }}
{%- endmacro -%}


{#- All of a cube that only another cube can have otherwise, unless ALTER CUBE changes it. -#}
{%- macro cube_definition(sql) -%}
  {{ return((nyala.cube_partitions() ~ ' AS ' ~ nyala.cube_select(sql)).strip()) }}
{%- endmacro -%}


{%- macro cube_options(options, keyword) -%}
  {%- if not options -%}
    {{ return('') }}
  {%- endif -%}
  {%- set written = [] -%}
  {%- for name, value in options.items() -%}
    {%- do written.append(name ~ ' = ' ~ nyala.literal(value)) -%}
  {%- endfor -%}
  {{ return(keyword ~ '(' ~ written | join(', ') ~ ')') }}
{%- endmacro -%}


{#- The options that differ; those that are not wanted any more are taken back. -#}
{%- macro changed_options(before, after) -%}
  {%- set changed = {} -%}
  {%- for name in before if name not in after -%}
    {%- do changed.update({name: false}) -%}
  {%- endfor -%}
  {%- for name, value in after.items() if before.get(name) != value -%}
    {%- do changed.update({name: value}) -%}
  {%- endfor -%}
  {{ return(changed) }}
{%- endmacro -%}


{%- macro literal(value) -%}
  {%- if value is boolean -%}
    {{ return('on' if value else 'off') }}
  {%- elif value is number -%}
    {{ return(value | string) }}
  {%- endif -%}
  {{ return("'" ~ (value | string).replace("'", "''") ~ "'") }}
{%- endmacro -%}
