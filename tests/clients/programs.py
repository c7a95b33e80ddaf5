"""Programs in other languages and scripts of psql, as checks of compare.py: what each prints for PostgreSQL and for Nyala is compared."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).parent
# Where the programs are built; kept, so that a second run does not fetch drivers again.
BUILD = Path(os.environ.get("NYALA_CLIENTS_BUILD", Path(tempfile.gettempdir()) / "nyala-clients"))


def psql_script(name):
    """Each part of psql/<name>.sql, after a line `--- title`, is a check: the whole output of a psql of its own. `setup` runs first."""
    def checks(_, url):
        parts = dict(part.split("\n", 1) for part in (HERE / "psql" / f"{name}.sql").read_text().split("\n--- ")[1:])
        states = ["-v", "VERBOSITY=sqlstate"] if name == "protocol" else []

        def run(body):
            done = subprocess.run(["psql", "-X", "-a", *states, url], input=body, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            # The words of errors differ; their kind and where they point do not. Nor do owners and widths of columns count.
            lines = [line for line in done.stdout.splitlines() if not re.match(r"HINT:|DETAIL:|LOCATION:|CONTEXT:", line)]
            lines = [re.sub(r"^((?:ERROR|NOTICE|WARNING): +(?:[0-9A-Z]{5}(?=$|:))?).*$", r"\1", line) for line in lines]
            return "\n".join(re.sub(r"\b(postgres|nyala|pg_database_owner)\b", "*", re.sub(r" +|-{3,}", " ", line)).strip() for line in lines)

        run(parts.pop("setup"))
        return {title: (lambda body=body: run(body)) for title, body in parts.items()}
    return checks


def program(tool, prepare, command):
    """A program that prints `name<TAB>answer`, a line for each check. `prepare` builds it once; both are given the folder of the build."""
    def checks(_, url):
        if not shutil.which(tool):
            raise ImportError(tool)
        prepare(BUILD)
        parts = urlsplit(url)
        place = {"PGHOST": parts.hostname, "PGPORT": str(parts.port), "PGUSER": parts.username, "PGDATABASE": parts.path[1:], "PGSSLMODE": "disable", "TZ": "UTC"}
        done = subprocess.run(command(BUILD), capture_output=True, text=True, timeout=300, env=os.environ | place)
        lines = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
        if done.returncode:
            lines["end"] = f"{done.returncode}: {done.stderr[-400:]}"
        return {name: (lambda answer=answer: answer) for name, answer in lines.items()}
    return checks


def run(*arguments, folder=None, **environment):
    subprocess.run(arguments, check=True, cwd=folder, env=os.environ | environment, stdout=subprocess.DEVNULL)


def build_jdbc(build):
    jar, source = build / "jdbc" / "postgresql-42.7.8.jar", HERE / "jdbc" / "Jdbc.java"
    if not jar.exists():
        run("mvn", "-q", "dependency:copy", "-Dartifact=org.postgresql:postgresql:42.7.8", f"-DoutputDirectory={jar.parent}")
    made = jar.parent / "Jdbc.class"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        run("javac", "-cp", str(jar), "-d", str(jar.parent), str(source))


def build_go(build):
    folder = build / "go"
    folder.mkdir(parents=True, exist_ok=True)
    for file in (HERE / "go").iterdir():
        shutil.copy2(file, folder)
    run("go", "build", "-o", "checks", ".", folder=folder, GOFLAGS="-mod=mod", GOTOOLCHAIN="local")


def build_node(build):
    folder = build / "node"
    folder.mkdir(parents=True, exist_ok=True)
    for file in (HERE / "node").iterdir():
        shutil.copy2(file, folder)
    if not (folder / "node_modules").exists():
        run("npm", "install", "--silent", "--no-audit", "--no-fund", folder=folder)


def script(tool, *path, asks=()):
    """A program that wants no build: an interpreter and a file. `asks` are arguments with which the interpreter fails if it lacks the driver."""
    def prepare(_):
        if asks and subprocess.run([tool, *asks], capture_output=True).returncode:
            raise ImportError(tool)
    return program(tool, prepare, lambda _: [tool, str(HERE.joinpath(*path))])


PROGRAMS = {
    "protocol": (None, psql_script("protocol")),
    "commands": (None, psql_script("commands")),
    "jdbc": (None, program("javac", build_jdbc, lambda build: ["java", "-cp", f"{build}/jdbc:{build}/jdbc/postgresql-42.7.8.jar", "Jdbc"])),
    "go": (None, program("go", build_go, lambda build: [str(build / "go" / "checks")])),
    "odbc": ("pyodbc", script(sys.executable, "odbc", "checks.py")),
    "pgbouncer": ("psycopg", program("pgbouncer", lambda _: None, lambda _: [sys.executable, str(HERE / "pgbouncer" / "checks.py")])),
    "php": (None, script("php", "php", "checks.php", asks=["-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"])),
    "perl": (None, script("perl", "perl", "checks.pl", asks=["-MDBD::Pg", "-e", "1"])),
    "ruby": (None, script("ruby", "ruby", "checks.rb", asks=["-rpg", "-e", "1"])),
    "node": (None, program("npm", build_node, lambda build: ["node", str(build / "node" / "checks.mjs")])),
}
