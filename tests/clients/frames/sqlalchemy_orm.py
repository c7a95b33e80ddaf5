"""SQLAlchemy: its ORM, many rows at once, errors, savepoints and isolation, over psycopg and psycopg2."""

import datetime as dt
import importlib
import uuid

from fixtures import D, engine_of


def mapped(sa):
    """Two tables and the classes that SQLAlchemy maps to them."""
    orm = importlib.import_module("sqlalchemy.orm")
    base = orm.declarative_base()

    class Item(base):
        __tablename__ = "o_item"
        id = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
        name = sa.Column(sa.String(30), nullable=False)
        price = sa.Column(sa.Numeric(10, 2))
        code = sa.Column(sa.Uuid)
        made = sa.Column(sa.DateTime)
        seen = sa.Column(sa.DateTime(timezone=True), server_default=sa.func.now())
        day = sa.Column(sa.Date)
        ok = sa.Column(sa.Boolean, default=True)
        weight = sa.Column(sa.Double)
        data = sa.Column(sa.LargeBinary)

    class Sale(base):
        __tablename__ = "o_sale"
        item_id = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
        line = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
        amount = sa.Column(sa.BigInteger)
        item = orm.relationship(Item, primaryjoin="foreign(Sale.item_id) == Item.id", backref="sales")

    return base, Item, Sale


def checks(sa, url):
    found = {}
    for driver in ("psycopg", "psycopg2"):
        engine = engine_of(url, driver)
        of_driver = {"orm_round": orm_round} | SHORT
        found |= {f"{driver} {name}": (lambda check=check, engine=engine: check(sa, engine)) for name, check in of_driver.items()}
    return found


def orm_round(sa, engine):
    orm = importlib.import_module("sqlalchemy.orm")
    postgresql = importlib.import_module("sqlalchemy.dialects.postgresql")
    base, Item, Sale = mapped(sa)
    base.metadata.drop_all(engine)
    base.metadata.create_all(engine)
    base.metadata.create_all(engine)
    code = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    out = []
    with orm.Session(engine) as s:
        s.add_all([Item(id=i, name=f"n{i}", price=D(i) / 4, code=code if i == 1 else None, made=dt.datetime(2024, 1, i), day=dt.date(2024, 1, i), weight=i / 3, data=b"\0\1") for i in range(1, 6)])
        s.add_all([Sale(item_id=i, line=n, amount=10 * i + n) for i in (1, 2) for n in (1, 2, 3)])
        s.commit()
        one = s.get(Item, 1)
        out += [one.price, one.code, one.made, one.ok, one.data, len(one.sales), one.seen is not None]
        one.price = D("2.5")
        s.flush()
        out.append(s.scalar(sa.select(sa.func.sum(Item.price))))
        out.append([i.id for i in s.scalars(sa.select(Item).where(Item.code == code))])
        out.append([i.id for i in s.scalars(sa.select(Item).where(Item.name.in_(["n1", "n2"]), Item.made > dt.datetime(2024, 1, 1), Item.ok.is_(True)).order_by(Item.id))])
        out.append(s.execute(sa.select(Item.name, sa.func.count(Sale.line), sa.func.sum(Sale.amount)).outerjoin(Sale, Sale.item_id == Item.id).group_by(Item.name).order_by(Item.name).limit(3)).all())
        out.append([len(i.sales) for i in s.scalars(sa.select(Item).options(orm.joinedload(Item.sales)).order_by(Item.id)).unique()])
        out.append([len(i.sales) for i in s.scalars(sa.select(Item).options(orm.selectinload(Item.sales)).order_by(Item.id))])
        out.append(s.execute(sa.update(Item).where(Item.id > 3).values(name=Item.name + "!", price=Item.price * 2)).rowcount)
        out.append(s.execute(sa.delete(Sale).where(Sale.line == 3)).rowcount)
        s.delete(s.get(Item, 5))
        s.commit()
        out.append(s.scalars(sa.select(Item.id).order_by(Item.id.desc()).limit(2).offset(1)).all())
        with s.begin_nested():
            s.get(Item, 2).name = "nested"
        s.rollback()
        out.append(s.scalar(sa.select(Item.name).where(Item.id == 2)))
        out.append(s.execute(sa.select(Item.id, sa.func.row_number().over(order_by=Item.price.desc())).order_by(Item.id)).all())
        out.append(s.scalar(sa.select(sa.func.count()).select_from(sa.select(Item.id).where(sa.exists().where(Sale.item_id == Item.id)).subquery())))
        out.append(s.execute(postgresql.insert(Item).values(id=1, name="up").on_conflict_do_update(index_elements=["id"], set_={"name": "up"}).returning(Item.id, Item.name)).all())
        out.append(s.execute(postgresql.insert(Item).values(id=1, name="no").on_conflict_do_nothing()).rowcount)
        out.append(s.execute(sa.insert(Item).returning(Item.id, Item.ok), [{"id": 10, "name": "a"}, {"id": 11, "name": "b"}]).all())
        s.commit()
        out.append(s.execute(sa.text("SELECT id FROM o_item WHERE name = :n OR (:d)::date > day ORDER BY 1"), {"n": "a", "d": dt.date(2024, 1, 2)}).all())
        out.append(
            s.execute(
                sa.select(sa.func.date_trunc("month", Item.made), sa.extract("year", Item.made), sa.cast(Item.price, sa.String), sa.case((Item.id > 1, "x"), else_="y")).order_by(Item.id).limit(1)
            ).all()
        )
        cte = sa.select(Item.id).where(Item.id < 4).cte("c")
        out.append(s.scalars(sa.select(cte.c.id).union_all(sa.select(sa.literal(99))).order_by("id")).all())
        out.append(s.scalars(sa.select(Item.id).with_for_update().where(Item.id == 1)).all())
        out.append([p.id for p in s.scalars(sa.select(Item).order_by(Item.id).execution_options(yield_per=2))])
    return out


def bulk(sa, engine):
    base, Item, _ = mapped(sa)
    with engine.begin() as c:
        c.execute(sa.delete(Item.__table__))
        n = c.execute(sa.insert(Item), [{"id": i, "name": f"x{i}", "weight": float("nan") if i == 1 else None} for i in range(2500)]).rowcount
        return n, c.execute(sa.text("SELECT count(*), count(weight) FROM o_item")).all()


def errors(sa, engine):
    base, Item, _ = mapped(sa)
    out = []
    for statement in (
        sa.insert(Item).values(id=1, name="d"),
        sa.insert(Item).values(id=-1, name=None),
        sa.text("SELECT nope"),
        sa.text("SELEC"),
        sa.text("SELECT 1/0"),
        sa.text("SELECT * FROM nope"),
        sa.text("SELECT 'x'::int"),
    ):
        try:
            with engine.begin() as c:
                c.execute(statement)
                out.append("ok")
        except sa.exc.DBAPIError as error:
            out.append((type(error).__name__, getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)))
    return out


def savepoints(sa, engine):
    with engine.begin() as c:
        c.execute(sa.text("CREATE TEMP TABLE s_temp (a INT)"))
        one = c.begin_nested()
        c.execute(sa.text("INSERT INTO s_temp VALUES (1)"))
        one.rollback()
        with c.begin_nested():
            c.execute(sa.text("INSERT INTO s_temp VALUES (2)"))
        return c.execute(sa.text("SELECT * FROM s_temp")).all()


def stream(sa, engine):
    with engine.connect().execution_options(stream_results=True, max_row_buffer=10) as c:
        return [len(p) for p in c.execute(sa.text("SELECT * FROM f_items")).partitions(30)]


def levels(sa, engine):
    out = []
    for level in ("AUTOCOMMIT", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        with engine.connect().execution_options(isolation_level=level) as c:
            out.append((c.get_isolation_level(), c.execute(sa.text("SELECT 1")).scalar()))
    return out


SHORT = {check.__name__: check for check in (bulk, errors, savepoints, stream, levels)}
