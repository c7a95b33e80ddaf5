"""SQLAlchemy: what its inspector and its reflection find in the catalog."""

from fixtures import engine_of
from sqlalchemy_orm import mapped


def checks(sa, url):
    found = {}
    for driver in ("psycopg", "psycopg2"):
        engine = engine_of(url, driver)
        found |= {f"{driver} {check.__name__}": (lambda check=check, engine=engine: check(sa, engine)) for check in (reflect, comments, copied)}
    return found


def reflect(sa, engine):
    base, *_ = mapped(sa)
    base.metadata.create_all(engine)
    meta = sa.MetaData()
    meta.reflect(engine, only=["o_item", "o_sale", "f_types"])
    return {t.name: [(c.name, str(c.type), c.nullable, c.primary_key) for c in t.columns] for t in meta.sorted_tables}


def comments(sa, engine):
    i = sa.inspect(engine)
    return [
        i.get_pk_constraint("o_sale"),
        i.get_indexes("o_sale"),
        i.get_foreign_keys("o_sale"),
        i.get_check_constraints("o_sale"),
        i.get_unique_constraints("o_sale"),
        i.get_table_comment("o_sale"),
        sorted(i.get_multi_columns(filter_names=["o_sale"])),
        i.has_table("o_sale"),
        i.has_schema("public"),
        i.get_table_options("o_sale"),
        i.get_materialized_view_names(),
        i.get_temp_table_names(),
        i.default_schema_name,
        i.has_index("o_sale", "nope"),
        i.get_view_names(schema="nope"),
    ]


def copied(sa, engine):
    base, Item, _ = mapped(sa)
    with engine.begin() as c:
        c.execute(sa.text("DROP VIEW IF EXISTS o_view"))
        c.execute(sa.text("CREATE VIEW o_view AS SELECT id, name FROM o_item WHERE id < 3"))
    i = sa.inspect(engine)
    return "o_view" in i.get_view_names(), [(x["name"], str(x["type"])) for x in i.get_columns("o_view")], i.get_view_definition("o_view") is not None
