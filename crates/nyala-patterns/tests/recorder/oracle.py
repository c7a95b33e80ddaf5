"""Asks PostgreSQL what it answers to cases, for `record.py` and `fuzz.py`.

A case is (kind, input, pattern). The answer is `=text`, `null`, or
`!SQLSTATE message | detail | hint`, of which the last two may be missing.
"""
import os
import subprocess
import tempfile

CONNECTION = ["psql", "-h", "127.0.0.1", "-p", "55440", "-U", "postgres", "-d", "postgres", "-XqAt"]

SETUP = r"""
set timezone = 'UTC'; set datestyle = 'ISO, MDY'; set client_min_messages = error;
create temp table cases(id int, kind text, a text, b text);
create function pg_temp.span(a text) returns interval language sql as $$
    select make_interval(months => split_part(a, ' ', 1)::int, days => split_part(a, ' ', 2)::int)
        + (split_part(a, ' ', 3) || ' microseconds')::interval $$;
-- A local time, its offset in seconds and its zone's abbreviation, as the zone of the session shows it.
create function pg_temp.local(a text, zone text) returns text language plpgsql as $$
declare at timestamptz;
begin
    perform set_config('timezone', zone, true);
    at := a::timestamptz;
    return to_char(at, 'FMYYYY-MM-DD HH24:MI:SS.US BC') || '|' || extract(timezone from at)::int || '|' || to_char(at, 'TZ');
end $$;
create function pg_temp.answer(kind text, a text, b text) returns text language plpgsql as $$
declare answer text; detail text; hint text;
begin
    if kind = 'tz' then
        perform set_config('timezone', split_part(a, '|', 2), true);
        answer := to_char(split_part(a, '|', 1)::timestamptz, b);
        perform set_config('timezone', 'UTC', true);
    elsif kind = 'ts' then answer := to_char(a::timestamp, b);
    elsif kind = 'iv' then answer := to_char(pg_temp.span(a), b);
    elsif kind = 'date' then answer := to_date(a, b);
    elsif kind = 'time' then answer := to_char(to_timestamp(a, b) at time zone 'UTC', 'FMYYYY-MM-DD HH24:MI:SS.US BC');
    elsif kind = 'dec' then answer := to_char(a::numeric, b);
    elsif kind = 'int' then answer := to_char(a::int, b);
    elsif kind = 'big' then answer := to_char(a::bigint, b);
    elsif kind = 'real' then answer := to_char(a::real, b);
    elsif kind = 'flt' then answer := to_char(a::double precision, b);
    elsif kind = 'num' then answer := to_number(a, b)::text;
    end if;
    return coalesce('=' || answer, 'null');
exception when others then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    perform set_config('timezone', 'UTC', true);
    return '!' || concat_ws(' | ', sqlstate || ' ' || sqlerrm, nullif(detail, ''), nullif(hint, ''));
end $$;
"""


def escape(text):
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def answers(cases):
    """Lines of `kind, input, pattern, answer`, escaped as PostgreSQL's COPY does."""
    rows = "".join(f"{place}\t{kind}\t{escape(a)}\t{escape(b)}\n" for place, (kind, a, b) in enumerate(cases))
    shown = """case kind when 'tz' then pg_temp.local(split_part(a, '|', 1), split_part(a, '|', 2)) else a end"""
    script = (
        SETUP
        + "copy cases from stdin;\n"
        + rows
        + "\\.\n"
        # The answers first: showing a case of a zone changes the session's zone until the end of its transaction.
        + "create temp table answers as select id, kind, a, b, pg_temp.answer(kind, a, b) as answer from cases;\n"
        + f"copy (select kind, {shown}, b, answer from answers order by id) to stdout;\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".sql", delete=False) as file:
        file.write(script)
    try:
        # A message that quotes the first bytes of a text may cut a character; the part of it is left out.
        run = subprocess.run(
            CONNECTION + ["-v", "ON_ERROR_STOP=1", "-f", file.name],
            capture_output=True, encoding="utf-8", errors="ignore",
        )
    finally:
        os.unlink(file.name)
    if run.returncode != 0:
        raise SystemExit(run.stderr)
    return run.stdout
