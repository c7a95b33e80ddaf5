{#- Fails with what CHECK CUBE finds. `sample` is how many random answers are compared. -#}
{%- test cube_is_right(model, sample=none) -%}
  {%- if model is string -%}
    {%- do exceptions.raise_compiler_error('the test cube_is_right takes no `where`: a cube is checked as a whole') -%}
  {%- endif -%}
  {%- set faults = [] -%}
  {%- if execute -%}
    {%- set sampled = '' if sample is none else ' SAMPLE ' ~ sample -%}
    {%- for finding in run_query('CHECK CUBE ' ~ nyala.cube_name(model) ~ sampled).rows if finding['result'] not in ('ok', 'not compared') -%}
      {%- do faults.append(finding) -%}
    {%- endfor -%}
  {%- endif -%}

  {%- for fault in faults %}
  SELECT {{ nyala.literal(fault['check']) }} AS finding, {{ nyala.literal(fault['result']) }} AS result, {{ nyala.literal(fault['detail']) }} AS detail
  {{ 'UNION ALL' if not loop.last }}
  {%- else %}
  SELECT '' AS finding, '' AS result, '' AS detail WHERE false
  {%- endfor -%}
{%- endtest -%}
