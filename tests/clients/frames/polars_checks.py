"""polars: reading through SQLAlchemy, connectorx and ADBC, and `write_database` with both engines."""

from fixtures import FRAME, columns, engine_of, rows


def checks(pl, url):
    full = {k: v for k, v in FRAME.items()}
    frame = lambda: pl.DataFrame(full, strict=False)
    engine = engine_of(url)
    show = lambda f: (dict(zip(f.columns, map(str, f.dtypes))), f.rows())

    def write(table, how, columns_=None, **options):
        f = frame() if columns_ is None else frame().select(columns_)
        f.write_database(table, engine if options.get("engine") == "sqlalchemy" else url, if_table_exists=how, **options)
        return rows(url, f"SELECT * FROM {table} ORDER BY 1, 3"), columns(url, table)

    read = "SELECT id, i2, i8, r, f, n, s, v, b, d, t, z FROM f_types ORDER BY id"
    return {
        "database": lambda: show(pl.read_database(read, engine)),
        "database parameters": lambda: show(pl.read_database("SELECT id FROM f_types WHERE id > :x ORDER BY 1", engine, execute_options={"parameters": {"x": 1}})),
        "database batches": lambda: [len(f) for f in pl.read_database("SELECT * FROM f_items", engine, iter_batches=True, batch_size=40)],
        "connectorx": lambda: show(pl.read_database_uri(read.replace(" n,", ""), url)),
        "connectorx all": lambda: show(pl.read_database_uri("SELECT * FROM f_types WHERE id <> 2 ORDER BY id", url)),
        "connectorx partition": lambda: show(pl.read_database_uri("SELECT id, price FROM f_items", url, partition_on="id", partition_num=3).sort("id")),
        "connectorx several": lambda: show(pl.read_database_uri(["SELECT id FROM f_items WHERE id < 5", "SELECT id FROM f_items WHERE id > 97"], url).sort("id")),
        "adbc": lambda: show(pl.read_database_uri(read, url, engine="adbc")),
        "adbc all": lambda: show(pl.read_database_uri("SELECT * FROM f_types ORDER BY id", url, engine="adbc")),
        "adbc empty": lambda: show(pl.read_database_uri("SELECT * FROM f_empty", url, engine="adbc")),
        "write replace": lambda: write("f_pl", "replace", engine="sqlalchemy"),
        "write append": lambda: write("f_pl", "append", engine="sqlalchemy"),
        "write fail": lambda: write("f_pl", "fail", engine="sqlalchemy"),
        "write adbc replace": lambda: write("f_pla", "replace", ["i", "f", "s", "b", "d", "t", "z"], engine="adbc"),
        "write adbc append": lambda: write("f_pla", "append", ["i", "f", "s", "b", "d", "t", "z"], engine="adbc"),
        "write adbc fail": lambda: write("f_pla", "fail", ["i"], engine="adbc"),
    }
