"""Alembic: migrations that it writes by itself from models, taken forwards and back."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fixtures import columns, engine_of

FIRST_COLUMN = "    n = sa.Column(sa.Numeric(10, 2))\n"
MODELS = (
    "import sqlalchemy as sa\nfrom sqlalchemy.orm import declarative_base\nBase = declarative_base()\n"
    "class One(Base):\n    __tablename__ = 'al_one'\n    id = sa.Column(sa.Integer, primary_key=True, autoincrement=False)\n"
    f"    name = sa.Column(sa.String(20), nullable=False)\n    at = sa.Column(sa.DateTime(timezone=True))\n{FIRST_COLUMN}    #more\n"
)


def checks(sa, url):
    return {"alembic": lambda: migrations(sa, url)}


class Project:
    """A folder as `alembic init` makes it, whose models are MODELS and whose migrations are of the tables `al_…` only."""

    def __init__(self, home, url):
        self.home, self.out = home, []
        self.run("init", "m")
        self.models = home / "models.py"
        self.models.write_text(MODELS)
        environment = (home / "m/env.py").read_text()
        environment = environment.replace("target_metadata = None", "import sys; sys.path.insert(0, '.')\nfrom models import Base\ntarget_metadata = Base.metadata")
        only = "target_metadata=target_metadata, include_name=lambda n, t, p: t != 'table' or n.startswith('al_')"
        (home / "m/env.py").write_text(environment.replace("target_metadata=target_metadata", only))
        settings = home / "alembic.ini"
        address = "sqlalchemy.url = " + url.replace("postgresql:", "postgresql+psycopg:")
        settings.write_text("\n".join(address if line.startswith("sqlalchemy.url") else line for line in settings.read_text().splitlines()))

    def run(self, *arguments):
        return subprocess.run([sys.executable, "-m", "alembic", *arguments], cwd=self.home, capture_output=True, text=True, timeout=120)

    def step(self, message):
        """A migration of what has changed in the models; then nothing is left to change."""
        for command in (("revision", "--autogenerate", "-m", message), ("upgrade", "head"), ("check",)):
            done = self.run(*command)
            self.out.append((command[0], done.returncode, done.stderr.strip().splitlines()[-1][:200] if done.returncode else ""))
        newest = max((self.home / "m/versions").glob("*.py"), key=lambda path: path.stat().st_mtime).read_text()
        self.out.append([line.strip() for line in newest.splitlines() if line.strip().startswith(("op.", "sa.Column"))])


def migrations(sa, url):
    for table in ("al_one", "al_two", "alembic_version"):
        with engine_of(url).begin() as c:
            c.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder), url)
        project.step("first")
        project.models.write_text(project.models.read_text().replace("#more", "extra = sa.Column(sa.Text)").replace(FIRST_COLUMN, ""))
        time.sleep(1.1)  # the newest migration is found by its time, in seconds
        project.step("second")
        back, current = project.run("downgrade", "-1").returncode, project.run("current").stdout.strip() != ""
        return *project.out, back, current, columns(url, "al_one"), project.run("downgrade", "base").returncode
