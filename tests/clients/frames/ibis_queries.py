"""ibis: expressions of each kind as queries, and their answers."""

import datetime as dt
import importlib


def connected(ibis, url):
    """A function that gives one connection, made when it is first called."""
    connection = []

    def con():
        if not connection:
            connection.append(ibis.connect(url.replace("postgresql://", "postgres://")))
        return connection[0]

    return con


def show(expression):
    return expression.to_pyarrow().to_pylist()


def memory():
    pa = importlib.import_module("pyarrow")
    moments = pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us"))
    return pa.table({"a": [1, 2], "s": ["x", None], "f": [1.5, None], "t": moments, "d": [dt.date(2024, 1, 1), None], "b": [True, None]})


def checks(ibis, url):
    con, _ = connected(ibis, url), ibis._
    t = lambda: con().table("f_items")
    types = lambda: con().table("f_types")
    return {
        "tables": lambda: sorted(n for n in con().list_tables() if n in ("f_types", "f_items", "f_empty")),
        "tables like": lambda: con().list_tables(like="^f_t.*s$"),
        "databases": lambda: "public" in con().list_databases(),
        "catalogs": lambda: "nyala" in con().list_catalogs(),
        "current": lambda: (con().current_database, con().current_catalog),
        "version": lambda: con().version.split(".")[0],
        "schema": lambda: str(types().schema()),
        "schema by sql": lambda: str(con().sql("SELECT id, price * 2 AS p, now() AS n, ARRAY[1] AS a FROM f_items").schema()),
        "types": lambda: show(types().order_by("id").drop("y", "u", "r", "f", "n")),
        "more types": lambda: show(types().filter(_.id == 1).select("y", "u", "r", "f", "n")),
        "pandas": lambda: types().order_by("id").select("id", "s", "d", "t", "z", "b").execute().to_csv(),
        "head": lambda: len(t().head(7).execute()),
        "filter": lambda: show(t().filter((_.id > 95) & (_.kind == "a"))),
        "filter in": lambda: show(t().filter(_.id.isin([1, 5])).order_by("id")),
        "filter null": lambda: t().filter(_.kind.isnull()).count().execute(),
        "filter like": lambda: t().filter(_.kind.like("a%")).count().execute(),
        "filter date": lambda: t().filter(_.sold >= dt.datetime(2024, 3, 1)).count().execute(),
        "filter between": lambda: t().filter(_.sold.between("2024-01-05", "2024-01-09")).count().execute(),
        "group": lambda: show(t().group_by("kind").aggregate(n=_.count(), total=_.price.sum(), mean=_.price.mean(), low=_.price.min(), u=_.id.nunique()).order_by("kind")),
        "group having": lambda: show(t().group_by("kind").having(_.count() > 33).aggregate(n=_.count())),
        "group time": lambda: show(t().group_by(m=_.sold.truncate("M")).aggregate(n=_.count()).order_by("m")),
        "group parts": lambda: show(t().group_by(w=_.sold.day_of_week.index(), y=_.sold.year()).aggregate(n=_.count()).order_by("w")),
        "where": lambda: show(t().aggregate(a=_.price.sum(where=_.kind == "a"), b=_.count(where=_.kind.isnull()))),
        "statistics": lambda: show(
            t().aggregate(m=_.price.cast("float64").median(), q=_.price.cast("float64").quantile(0.9), sd=_.id.std().round(6), v=_.id.var(how="pop"), c=_.id.corr(_.price.cast("float64")).round(6))
        ),
        "collect": lambda: show(t().filter(_.id < 6).aggregate(c=_.id.collect(), g=_.kind.group_concat("-"))),
        "first": lambda: show(t().group_by("kind").aggregate(f=_.id.first(order_by=_.id), l=_.id.last(order_by=_.id), a=_.id.argmax(_.price)).order_by("kind")),
        "mode": lambda: t().kind.mode().execute(),
        "value_counts": lambda: show(t().kind.value_counts().order_by("kind")),
        "describe": lambda: t().describe().order_by("pos").execute().to_csv(),
        "topk": lambda: show(t().kind.topk(2)),
        "distinct": lambda: show(t().select("kind").distinct().order_by("kind")),
        "distinct on": lambda: show(t().order_by("id").distinct(on="kind", keep="first").order_by("id")),
        **{f"join {how}": (lambda how=how: show(t().filter(_.id < 4).join(types().select("id", "s"), "id", how=how).order_by("id"))) for how in ("inner", "left", "right", "outer", "semi", "anti")},
        "join self": lambda: (lambda a, b: a.join(b, a.id == b.id + 1).count().execute())(t(), t().view()),
        "join cross": lambda: t().cross_join(types().select(k="id")).count().execute(),
        "union": lambda: t().union(t()).count().execute(),
        "difference": lambda: ibis.difference(t().select("id"), types().select("id")).count().execute(),
        "intersect": lambda: show(ibis.intersect(t().select("id"), types().select("id")).order_by("id")),
        "window": lambda: show(
            t()
            .filter(_.id < 6)
            .mutate(
                r=ibis.row_number().over(group_by="kind", order_by=_.id),
                s=_.price.cumsum(order_by=_.id),
                l=_.id.lag(1).over(order_by=_.id),
                k=ibis.rank().over(order_by=_.price.desc()),
                m=_.price.mean().over(ibis.window(preceding=1, following=0, order_by=_.id)),
            )
            .order_by("id")
        ),
        "mutate": lambda: show(
            t()
            .filter(_.id < 3)
            .mutate(
                x=_.id * 2.5,
                u=_.kind.upper(),
                l=_.kind.length(),
                c=ibis.ifelse(_.id > 1, "big", "small"),
                n=_.kind.fill_null("none"),
                p=_.price.cast("int64"),
                r=_.price.round(0),
                d=_.sold.date(),
                f=_.sold.strftime("%Y-%m"),
                e=_.sold.epoch_seconds(),
                m=_.id % 2,
                i=_.id // 2,
                v=_.id / 2,
            )
        ),
        "strings": lambda: show(
            types()
            .filter(_.id == 1)
            .select(
                a=_.s.contains("e"),
                b=_.s.startswith("t"),
                c=_.s.replace("e", "o"),
                d=_.s[0:2],
                e=_.s.re_search("^t"),
                f=_.s.re_extract("(e)", 1),
                g=_.s.reverse(),
                h=_.s.lpad(5, "-"),
                i=_.s.concat("!"),
                j=_.s.find("a"),
                k=_.s.split("e"),
                l=_.s.ascii_str(),
                m=_.s.capitalize(),
                n=_.s.re_replace("[ea]", "x"),
                o=_.s.strip(),
                p=_.s.left(1),
            )
        ),
        "times": lambda: show(
            types()
            .filter(_.id == 1)
            .select(
                a=_.t + ibis.interval(days=1),
                b=_.t.truncate("h"),
                c=_.d.month(),
                d=_.z.hour(),
                e=_.t.quarter(),
                f=_.t.week_of_year(),
                g=_.t - ibis.timestamp("2024-01-01"),
                h=_.d.delta("2023-12-31", unit="day"),
                i=_.t.day_of_year(),
                j=_.t.microsecond(),
                k=_.d.day_of_week.full_name(),
                l=_.t.time(),
                m=_.t.bucket(minutes=5),
            )
        ),
        "numbers": lambda: show(
            types()
            .filter(_.id == 1)
            .select(
                a=_.i8.abs(),
                b=_.f.sqrt().round(6),
                c=_.f.ln().round(6),
                d=_.f.ceil(),
                e=_.f.floor(),
                f=_.i2.sign(),
                g=_.i8.negate(),
                h=_.f.log10().round(6),
                i=_.f.exp().round(6),
                j=ibis.greatest(_.i2, _.id),
                k=_.i2.nullif(1),
                l=_.f.isnan(),
                m=_.f.clip(0, 0.05),
                n=ibis.pi.round(6),
                o=_.f.power(2),
            )
        ),
        "arrays": lambda: show(con().sql("SELECT ARRAY[3, 1, 2] AS a").select(x=_.a.length(), y=_.a[0], z=_.a.contains(2), s=_.a.sort(), c=_.a.concat(_.a), u=_.a.unnest())),
        "case": lambda: show(t().filter(_.id < 4).select(c=ibis.cases((_.id == 1, "one"), (_.id == 2, "two"), else_="many"))),
        "pivot": lambda: show(
            t().filter(_.id < 7).mutate(kind=_.kind.fill_null("z")).pivot_wider(names_from="kind", values_from="price", id_cols=["id"], names=["a", "b", "z"], values_agg="sum").order_by("id")
        ),
        "pivot longer": lambda: show(types().filter(_.id < 3).select("id", "i2", "i8").mutate(i2=_.i2.cast("int64")).pivot_longer(["i2", "i8"]).order_by("id", "name")),
        "sample": lambda: t().sample(1.0).count().execute(),
        "unnest": lambda: show(con().sql("SELECT 1 AS i, ARRAY[1, 2] AS a").unnest("a").order_by("a")),
        "order limit": lambda: show(t().order_by(ibis.desc("price"), "id").limit(3, offset=2)),
        "nulls": lambda: show(t().filter(_.id < 4).order_by(_.kind.asc(nulls_first=True), "id")),
        "scalar": lambda: t().filter(_.price > t().price.mean()).count().execute(),
        "subquery in": lambda: t().filter(_.id.isin(types().id)).count().execute(),
        "exists": lambda: (lambda a, b: a.filter((a.id == b.id).any()).count().execute())(t(), types()),
        "raw": lambda: con().raw_sql("SELECT count(*) FROM f_items").fetchone(),
        "sql": lambda: show(con().sql("WITH q AS (SELECT kind, count(*) AS n FROM f_items GROUP BY 1) SELECT * FROM q").filter(_.n > 33)),
        "table sql": lambda: show(t().sql("SELECT sum(id) AS s FROM f_items")),
        "memtable": lambda: show(con().table("f_items").join(ibis.memtable(memory()), [("id", "a")]).select("id", "s", "f", "t", "d", "b").order_by("id")),
        "batches": lambda: sum(b.num_rows for b in t().to_pyarrow_batches(chunk_size=30)),
        "polars": lambda: t().filter(_.id < 3).select("id", "kind").to_polars().rows(),
    }
