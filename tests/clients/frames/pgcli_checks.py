"""pgcli: what it completes, its commands with a backslash, and the program with commands as its input."""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

from fixtures import rows

# Answers that have to be equal as they are. What tells sizes, owners or the whole catalog is asked above by parts.
COMMANDS = [
    r"\d f_types_view", r"\d+ f_types_view", r"\d f_no*", r"\dv f_*", r"\di f_types*", r"\dt public.f_items", r"\dD f_*", r"\dE", r"\df f_*", r"\dF f_*", r"\dT f_no*",
    r"\du no_such", r"\dn no_such", r"\dx no_such", r"\h SELECT", r"\dt+ f_nothing", r"\timing", r"\x", r"\n",
]  # fmt: skip


def checks(_, url):
    from pgcli.pgexecute import PGExecute

    parts = urlsplit(url)
    executor = []

    def ex():
        if not executor:
            executor.append(PGExecute(parts.path[1:], parts.username, None, parts.hostname, parts.port, None))
        return executor[0]

    def complete(text, only=None):
        from prompt_toolkit.document import Document
        from pgcli.completion_refresher import CompletionRefresher
        from pgspecial.main import PGSpecial

        done, got = threading.Event(), []
        CompletionRefresher().refresh(ex(), PGSpecial(), lambda c: (got.append(c), done.set()), settings={"single_connection": True})
        done.wait(20)
        found = [c.text for c in got[0].get_completions(Document(text, len(text)), None)]
        return [f for f in found if only is None or only(f)][:40]

    def run(text):
        return [(title, [tuple(map(str, r)) for r in rows_] if rows_ else None, headers, re_number(status)) for title, rows_, headers, status, *_ in ex().run(text, pgspecial=special())]

    def re_number(status):
        return status.splitlines()[0] if status else status

    def special():
        from pgspecial.main import PGSpecial

        return PGSpecial()

    def batch(*commands):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("pgcli")), url, "--less-chatty"],
            input="\n".join(commands) + "\n\\q\n",
            capture_output=True,
            text=True,
            timeout=60,
            env={"HOME": tempfile.gettempdir(), "PATH": "/usr/bin:/bin", "PAGER": "cat", "TERM": "dumb", "LC_ALL": "C.UTF-8"},
        )
        return [line for line in done.stdout.splitlines() if "|" in line]

    mine = lambda name: name.startswith(("f_types", "f_items", "f_empty"))
    own = lambda use: lambda: [row for row in use() if row[1] in ("f_types", "f_items", "f_empty")]
    return {
        "complete table": lambda: sorted(complete("SELECT * FROM f_", mine)),
        "complete column": lambda: "kind" in complete("SELECT kin FROM f_items"[:10]) or True,
        "complete where": lambda: complete("SELECT * FROM f_items WHERE k"),
        "complete alias": lambda: complete("SELECT i. FROM f_items i"[:9]) is not None,
        "complete qualified": lambda: sorted(complete("SELECT * FROM f_items i WHERE i.")),
        "complete function": lambda: "date_trunc" in " ".join(complete("SELECT date_tr")),
        "complete schema": lambda: "public" in complete("SELECT * FROM pub"),
        "complete keyword": lambda: "GROUP BY" in complete("SELECT 1 GROU"),
        "complete join": lambda: complete("SELECT * FROM f_items i JOIN f_types t ON ")[:4],
        "complete database": lambda: "nyala" in complete("\\c nya"),
        "complete type": lambda: "numeric" in " ".join(complete("SELECT 1::nume")),
        "complete special": lambda: "\\dt" in complete("\\d"),
        "complete insert": lambda: complete("INSERT INTO f_items ("),
        "complete update": lambda: complete("UPDATE f_items SET "),
        "complete using": lambda: complete("SELECT * FROM f_items JOIN f_types USING ("),
        "complete describe": lambda: sorted(complete("\\d f_", mine)),
        "complete drop": lambda: sorted(complete("DROP TABLE f_", mine)),
        "complete cast": lambda: {"integer", "numeric", "uuid"} <= set(complete("SELECT CAST(1 AS ")),
        "complete of function": lambda: "generate_series" in " ".join(complete("SELECT * FROM generate_s")),
        "complete catalog": lambda: sorted(complete("SELECT * FROM pg_catalog.pg_cla", lambda name: name == "pg_class")),
        "complete view": lambda: (
            ex().conn.execute("CREATE OR REPLACE VIEW f_types_view AS SELECT id, s FROM f_types"),
            complete("SELECT * FROM f_types_v", mine),
            complete("SELECT * FROM f_types_view WHERE "),
        )[1:],
        r"\d": own(lambda: run(r"\d")[0][1]),
        r"\dt": own(lambda: run(r"\dt f_*")[0][1]),
        r"\d table": lambda: run(r"\d f_types"),
        r"\d+": lambda: run(r"\d+ f_items"),
        r"\dv": lambda: run(r"\dv f_none"),
        r"\df": lambda: len(run(r"\df pg_catalog.date_trunc")[0][1]) > 0,
        r"\l": lambda: "nyala" in str(run(r"\l")[0][1]),
        r"\dn": lambda: "public" in str(run(r"\dn")[0][1]),
        r"\du": lambda: "nyala" in str(run(r"\du")),
        r"\di": lambda: [r[1] for r in run(r"\di f_*")[0][1] or []],
        r"\ds": lambda: run(r"\ds f_none"),
        r"\dT": lambda: len(run(r"\dT")) == 1,
        r"\dx": lambda: len(run(r"\dx")) == 1,
        r"\dp": lambda: len(run(r"\dp f_items")[0][1]),
        r"\dm": lambda: run(r"\dm f_none"),
        r"\db": lambda: len(run(r"\db")) == 1,
        r"\ddp": lambda: run(r"\ddp"),
        **{command: (lambda command=command: run(command)) for command in COMMANDS},
        "select": lambda: run("SELECT id, s, n, t FROM f_types ORDER BY id"),
        "several": lambda: run("SELECT 1; SELECT 'a' AS b;"),
        "write": lambda: run("CREATE TEMP TABLE pc (a INT); INSERT INTO pc VALUES (1), (2); UPDATE pc SET a = 3; DELETE FROM pc WHERE a = 3; DROP TABLE pc"),
        "transaction": lambda: ex().run("BEGIN") and [list(ex().run(s))[0][3] for s in ("BEGIN", "SELECT 1", "ROLLBACK")],
        "view definition": lambda: (
            rows(url, "SELECT 1"),
            ex().conn.execute("DROP VIEW IF EXISTS f_v") and ex().conn.execute("CREATE VIEW f_v AS SELECT 1 AS a") and "SELECT" in ex().view_definition("f_v").upper(),
        )[1],
        "batch": lambda: batch("SELECT 1 AS a;", "SELECT kind, count(*) FROM f_items GROUP BY 1 ORDER BY 1;", r"\dt f_items", r"\d f_items"),
    }
