"""pgbouncer between psycopg and the server, pooling sessions and pooling transactions: a line `name<TAB>answer` for each check."""

import os
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psycopg

LONG = "SELECT count(*) FROM generate_series(1, 1000000000) AS a(n) CROSS JOIN generate_series(1, 100000) AS b(m) WHERE n % 7 = 8"


def start(mode, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = os.environ
    (folder / "users.txt").write_text(f'"{place["PGUSER"]}" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n{place['PGDATABASE']} = host={place['PGHOST']} port={place['PGPORT']} user={place['PGUSER']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users.txt\npool_mode = {mode}\ndefault_pool_size = 3\nmax_client_conn = 100\nserver_reset_query = DISCARD ALL\n"
        "ignore_startup_parameters = extra_float_digits\n")
    folder.chmod(0o755)
    user = ["-u", "nobody"] if os.getuid() == 0 else []  # it refuses to run as root
    process = subprocess.Popen(["pgbouncer", "-q", *user, str(folder / "pgbouncer.ini")], stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    return process, f"postgresql://{place['PGUSER']}@127.0.0.1:{port}/{place['PGDATABASE']}"


def connect(url, **options):
    return psycopg.connect(url, **({"autocommit": True, "prepare_threshold": None} | options))


def state(connection, sql):
    try:
        return connection.execute(sql).fetchall()
    except psycopg.Error as error:
        return error.sqlstate


def once(url, sql, *parameters):
    with connect(url) as connection:
        return connection.execute(sql, *parameters).fetchall()


def clients(url):
    wrong = []

    def client(n):
        try:
            with connect(url) as connection:
                wrong.extend(row for _ in range(20) if (row := connection.execute("SELECT id FROM pb_rows WHERE id = %s", (n,)).fetchone()) != (n,))
        except psycopg.Error as error:
            wrong.append(error.sqlstate or str(error))
    threads = [threading.Thread(target=client, args=(n,)) for n in range(1, 41)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def left(url, statement, question):
    """What the clients after one see of what it did."""
    with connect(url) as connection:
        connection.execute(statement)
    time.sleep(0.2)
    answers = []
    for _ in range(4):
        with connect(url) as connection:
            answers.append(state(connection, question))
    return answers


def transaction(url):
    with connect(url, autocommit=False) as connection:
        connection.execute("SET LOCAL work_mem = '9MB'")
        inside = connection.execute("SHOW work_mem").fetchone()
        connection.commit()
        return inside, connection.execute("SHOW work_mem").fetchone()


def prepared(url):
    with connect(url, prepare_threshold=0, autocommit=False) as connection:
        return [connection.execute("SELECT name FROM pb_rows WHERE id = %s", (n,)).fetchone() for n in range(1, 10)]


def failed(url):
    connection = connect(url, autocommit=False)
    first = state(connection, "SELECT 1/0")
    connection.close()
    return first, once(url, "SELECT 'alive'")


def cancel(url):
    with connect(url) as connection:
        threading.Timer(0.4, connection.cancel).start()
        return state(connection, LONG), state(connection, "SELECT 'alive'")


def copy(url):
    with connect(url) as connection, connection.cursor().copy("COPY (SELECT id FROM pb_rows ORDER BY id LIMIT 3) TO STDOUT") as rows:
        return [bytes(row) for row in rows]


def cursor(url):
    with connect(url, autocommit=False) as connection, connection.cursor(name="c") as rows:
        rows.itersize = 10
        return sum(row[0] for row in rows.execute("SELECT id FROM pb_rows ORDER BY id"))


def pipeline(url):
    with connect(url) as connection:
        with connection.pipeline():
            answers = [connection.execute("SELECT id FROM pb_rows WHERE id = %s", (n,)) for n in range(1, 6)]
        return [answer.fetchone() for answer in answers]


def main():
    for mode in ("session", "transaction"):
        with tempfile.TemporaryDirectory() as folder:
            process, url = start(mode, Path(folder))
            checks = {
                "setup": lambda: (left(url, "DROP TABLE IF EXISTS pb_rows", "SELECT 'x'"), left(url, "CREATE TABLE pb_rows (id INT PRIMARY KEY, name TEXT)", "SELECT 'x'"),
                                  left(url, "INSERT INTO pb_rows SELECT n, 'n' || n FROM generate_series(1, 100) AS g(n)", "SELECT count(*) FROM pb_rows")),
                "query": lambda: once(url, "SELECT id FROM pb_rows WHERE id = %s", (3,)), "forty clients on three sessions": lambda: clients(url), "prepared": lambda: prepared(url),
                "settings": lambda: left(url, "SET work_mem = '9MB'", "SHOW work_mem"), "time zone": lambda: left(url, "SET timezone = 'Asia/Tokyo'", "SHOW timezone"),
                "temporary tables": lambda: left(url, "CREATE TEMP TABLE pb_temporary (a INT)", "SELECT count(*) FROM pb_temporary"),
                "prepared statements": lambda: left(url, "PREPARE pb AS SELECT 'x'", "EXECUTE pb"), "held cursors": lambda: left(url, "DECLARE h CURSOR WITH HOLD FOR SELECT 'x'", "FETCH 1 FROM h"),
                "transaction": lambda: transaction(url), "closed in a failed block": lambda: failed(url), "cancel": lambda: cancel(url), "copy": lambda: copy(url), "cursor": lambda: cursor(url),
                "pipeline": lambda: pipeline(url), "error": lambda: state(connect(url), "SELECT nope"), "drop": lambda: left(url, "DROP TABLE pb_rows", "SELECT 'x'"),
            }
            for name, check in checks.items():
                try:
                    answer = repr(check())
                except Exception as error:  # noqa: BLE001: an error is an answer too
                    answer = f"{type(error).__name__} {getattr(error, 'sqlstate', None)}"
                print(f"{mode} {name}\t{answer}", flush=True)
            process.terminate()
            process.wait()


main()
