{#- A model that is a cube. See the README for its configuration. -#}
{%- materialization cube, default -%}
  {%- set cube = nyala.cube_name(this) -%}
  {%- set definition = nyala.cube_definition(sql) -%}
  {%- set options = config.get('options') or {} -%}
  {%- set recreate = should_full_refresh() -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {%- set is_there = nyala.cube_exists(this) -%}
  {%- set noted = nyala.noted_cube(this) -%}
  {%- set action = nyala.cube_action(is_there, noted, definition, recreate) -%}

  {%- if action == 'recreate' -%}
    {%- do nyala.try_cube(this, options, sql) -%}
    {%- do run_query('DROP CUBE ' ~ cube) -%}
  {%- endif -%}
  {%- if action in ('create', 'recreate') -%}
    {%- do run_query(nyala.create_statement(cube, options, sql)) -%}
  {%- endif -%}
  {%- if action == 'alter' -%}
    {%- do run_query('ALTER CUBE ' ~ cube ~ ' ' ~ config.get('alter') | join(', ')) -%}
  {%- endif -%}
  {%- if action in ('keep', 'alter') and noted.options != options -%}
    {%- do run_query('ALTER CUBE ' ~ cube ~ nyala.cube_options(nyala.changed_options(noted.options, options), ' SET ')) -%}
  {%- endif -%}
  {%- if action != 'keep' or noted.options != options -%}
    {%- do nyala.note_cube(this, definition, options) -%}
  {%- endif -%}

  {%- call statement('main') -%}
    {{ nyala.build_statement(cube, 'REFRESH' if recreate and action == 'keep' else 'BUILD') }}
  {%- endcall -%}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ adapter.commit() }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {#- A cube is no relation: nothing can be selected from it. -#}
  {{ return({'relations': []}) }}
{%- endmaterialization -%}


{#- What is to be done with the cube that is there, or is not: create, recreate, alter or keep. -#}
{%- macro cube_action(is_there, noted, definition, recreate) -%}
  {%- if not is_there -%}
    {{ return('create') }}
  {%- endif -%}
  {%- if noted is none -%}
    {%- do exceptions.raise_compiler_error('cube ' ~ nyala.cube_name(this) ~ ' was not made by dbt: drop it, or name the model otherwise') -%}
  {%- endif -%}
  {%- if noted.definition == definition -%}
    {{ return('keep') }}
  {%- endif -%}
  {%- if config.get('alter') and not recreate -%}
    {{ return('alter') }}
  {%- endif -%}
  {%- if config.get('on_change', 'recreate') == 'fail' and not recreate -%}
    {%- do exceptions.raise_compiler_error('the text of cube ' ~ nyala.cube_name(this) ~ ' has changed: say how with `alter`, or run with --full-refresh') -%}
  {%- endif -%}
  {{ return('recreate') }}
{%- endmacro -%}


{%- macro create_statement(cube, options, sql) -%}
  {{ return('CREATE CUBE ' ~ cube ~ nyala.cube_partitions() ~ nyala.cube_options(options, ' WITH ') ~ ' AS ' ~ nyala.cube_select(sql)) }}
{%- endmacro -%}


{#- Makes the cube under another name, without building it: a text with a mistake in it fails here, before the cube of before is dropped. -#}
{%- macro try_cube(relation, options, sql) -%}
  {%- set trial = adapter.quote(relation.schema) ~ '.' ~ adapter.quote(relation.identifier ~ '__dbt_trial') -%}
  {%- set unbuilt = {} -%}
  {%- do unbuilt.update(options) -%}
  {%- do unbuilt.update({'auto_refresh': false}) -%}
  {%- do run_query('DROP CUBE IF EXISTS ' ~ trial) -%}
  {%- do run_query(nyala.create_statement(trial, unbuilt, sql)) -%}
  {%- do run_query('DROP CUBE ' ~ trial) -%}
{%- endmacro -%}


{%- macro build_statement(cube, verb) -%}
  {%- set build_from, build_to = config.get('build_from'), config.get('build_to') -%}
  {%- if (build_from is none) != (build_to is none) -%}
    {%- do exceptions.raise_compiler_error('a model that is a cube needs both `build_from` and `build_to`, or neither') -%}
  {%- endif -%}
  {%- if not config.get('build', true) -%}
    SELECT 'not built' AS build
  {%- elif build_from is none -%}
    {{ verb }} CUBE {{ cube }}
  {%- else -%}
    {{ verb }} CUBE {{ cube }} FROM {{ nyala.literal(build_from) }} TO {{ nyala.literal(build_to) }}
  {%- endif -%}
{%- endmacro -%}
