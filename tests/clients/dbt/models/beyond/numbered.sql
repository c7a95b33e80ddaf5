{{ config(materialized='table', pre_hook="create table if not exists {{ target.schema }}.numbers (id serial primary key, at timestamptz default now())", post_hook="insert into {{ target.schema }}.numbers (at) values (now())") }}
select 1 as one
