"""The dialect `nyala://`: what it does otherwise than PostgreSQL's, and that the rest works."""

from __future__ import annotations

import importlib.metadata
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import nyala

pytest.importorskip("sqlalchemy")

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql

from nyala.sqlalchemy import NyalaInspector

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Makes the entry points of pyproject.toml known as an installed wheel does."""
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    groups = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]
    folder = tmp_path_factory.mktemp("site")
    metadata = folder / "nyala_entry_points-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: nyala-entry-points\nVersion: 0\n")
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{n} = {v}" for n, v in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    sys.path.append(str(folder))
    importlib.invalidate_caches()
    yield
    sys.path.remove(str(folder))


@pytest.fixture
def engine(server: nyala.Server) -> Iterator[sa.Engine]:
    """An engine that the entry point makes."""
    engine = sa.create_engine(server.sqlalchemy_url)
    yield engine
    engine.dispose()


def test_the_dialect_is_found_by_its_name(server: nyala.Server, engine: sa.Engine) -> None:
    assert (engine.dialect.name, engine.dialect.driver) == ("nyala", "psycopg")
    again = sa.create_engine(server.sqlalchemy_url.replace("nyala://", "nyala+psycopg://"))
    assert type(again.dialect) is type(engine.dialect)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT :n + 1"), {"n": 41}).scalar_one() == 42


def test_a_table_with_an_integer_key_is_made_and_written(engine: sa.Engine, name: str) -> None:
    table = sa.Table(
        name, sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("price", sa.Numeric(10, 2))
    )
    assert "SERIAL" not in str(sa.schema.CreateTable(table).compile(dialect=engine.dialect))
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(table), [{"id": 1, "price": Decimal("1.5")}, {"id": 2, "price": None}])
        assert connection.execute(sa.select(table).order_by(table.c.id)).all() == [(1, Decimal("1.50")), (2, None)]
    with engine.begin() as connection, pytest.raises(sa.exc.DBAPIError, match="id"):
        connection.execute(sa.insert(table).values(price=1))
    table.drop(engine)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            lambda: sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
            r"`t\.id` has autoincrement, and Nyala has no sequences",
        ),
        (lambda: sa.Column("id", sa.Integer, sa.Identity(), primary_key=True), r"`t\.id` has an Identity"),
        (lambda: sa.Column("id", sa.Integer, sa.Sequence("s"), primary_key=True), r"`t\.id` has a Sequence"),
        (lambda: sa.Column("id", sa.Integer, sa.Computed("1 + 1")), r"`t\.id` is Computed"),
    ],
)
def test_columns_that_count_are_refused(engine: sa.Engine, column: object, message: str) -> None:
    assert callable(column)
    table = sa.Table("t", sa.MetaData(), column())
    with pytest.raises(sa.exc.CompileError, match=message):
        table.create(engine)


def test_options_of_live_tables(engine: sa.Engine, connection: nyala.Connection, name: str) -> None:
    options: dict[str, Any] = {
        "nyala_ttl": "30 days",
        "nyala_sync": "interval",
        "nyala_buckets": 4,
        "nyala_disk_store": "main",
    }
    table = sa.Table(name, sa.MetaData(), sa.Column("id", sa.BigInteger, primary_key=True), **options)
    written = str(sa.schema.CreateTable(table).compile(dialect=engine.dialect))
    assert "WITH (disk_store = 'main', sync = 'interval', ttl = '30 days', buckets = '4')" in written
    table.create(engine)
    assert connection.execute('SELECT disk_store FROM system.live_tables WHERE "table" = $1', [name]).scalar() == "main"
    with pytest.raises(sa.exc.DBAPIError, match="sooner"):
        sa.Table(
            f"{name}_bad", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), nyala_ttl="sooner"
        ).create(engine)
    with pytest.raises(sa.exc.ArgumentError, match="tll"):
        sa.Table(f"{name}_bad", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), nyala_tll="1 day")


def test_reflection(engine: sa.Engine, connection: nyala.Connection, name: str) -> None:
    connection.execute(
        f'CREATE LIVE TABLE {name} (shop INT, "Item ""x""" TEXT, cents BIGINT NOT NULL, PRIMARY KEY (shop, "Item ""x"""))'
    )
    connection.execute(f"CREATE VIEW {name}_view AS SELECT shop, cents FROM {name}")
    connection.execute(f"CREATE CUBE {name}_cube AS SELECT shop, sum(cents) FROM {name} GROUP BY shop")
    inspector = sa.inspect(engine)
    assert isinstance(inspector, NyalaInspector)
    assert name in inspector.get_table_names()
    assert f"{name}_view" not in inspector.get_table_names()
    assert f"{name}_view" in inspector.get_view_names()
    assert name in inspector.get_live_table_names()
    assert f"{name}_cube" in inspector.get_cube_names()
    assert inspector.get_cube_names(schema="no_such_schema") == []
    assert not inspector.has_table(f"{name}_cube"), "queries do not name cubes"
    assert inspector.get_sequence_names() == []
    assert inspector.get_pk_constraint(name)["constrained_columns"] == ["shop", 'Item "x"']
    table = sa.Table(name, sa.MetaData(), autoload_with=engine)
    assert [(c.name, str(c.type), c.nullable, c.primary_key) for c in table.columns] == [
        ("shop", "INTEGER", False, True),
        ('Item "x"', "TEXT", False, True),
        ("cents", "BIGINT", False, False),
    ]
    assert f"{name}_view" in sa.Table(f"{name}_view", sa.MetaData(), autoload_with=engine).name
    connection.execute(f"DROP CUBE {name}_cube")


def test_the_orm(engine: sa.Engine, name: str) -> None:
    base = orm.declarative_base()

    class Item(base):  # type: ignore[misc, valid-type]
        __tablename__ = name
        id = sa.Column(sa.Uuid, primary_key=True, default=uuid.uuid4)
        title = sa.Column(sa.String(30), nullable=False)
        made = sa.Column(sa.DateTime(timezone=True), server_default=sa.func.now())

    base.metadata.create_all(engine)
    base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add_all([Item(title="a"), Item(title="b")])
        session.commit()
        first = session.scalars(sa.select(Item).where(Item.title == "a")).one()
        assert isinstance(first.id, uuid.UUID)
        assert first.made is not None
        first.title = "c"
        session.commit()
        upsert = postgresql.insert(Item).values(id=first.id, title="d")
        session.execute(upsert.on_conflict_do_update(index_elements=["id"], set_={"title": upsert.excluded.title}))
        session.commit()
        session.expire_all()
        assert sorted(session.scalars(sa.select(Item.title))) == ["b", "d"]
    base.metadata.drop_all(engine)


def test_a_large_result_is_streamed(engine: sa.Engine) -> None:
    with engine.connect().execution_options(stream_results=True, max_row_buffer=1000) as connection:
        result = connection.execute(sa.text("SELECT value FROM generate_series(1, 100000) AS g(value)"))
        assert sum(n for (n,) in result) == 100_000 * 100_001 // 2


def test_pandas_reads_and_writes(engine: sa.Engine, name: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1, 2], "s": ["a", None]})
    frame.to_sql(name, engine, index=False)
    assert pandas.read_sql(f"SELECT n FROM {name} ORDER BY n", engine)["n"].tolist() == [1, 2]
