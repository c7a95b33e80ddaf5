"""connectorx: each of its protocols, partitions, and its three return types."""


def checks(cx, url):
    found = {}
    for protocol in ("binary", "csv", "cursor", "simple"):
        read = lambda sql, protocol=protocol, **o: (lambda f: (f.dtypes.astype(str).to_dict(), f.to_csv()))(cx.read_sql(f"{url}?cxprotocol={protocol}", sql, **o))
        found |= {
            f"{protocol} {name}": check
            for name, check in {
                "types": lambda read=read: read("SELECT * FROM f_types WHERE id <> 2 ORDER BY id"),
                "specials": lambda read=read: read("SELECT r, f, s, v, t FROM f_types ORDER BY id"),
                "empty": lambda read=read: read("SELECT * FROM f_empty"),
                "partition": lambda protocol=protocol: sorted(
                    map(tuple, cx.read_sql(f"{url}?cxprotocol={protocol}", "SELECT id, price FROM f_items", partition_on="id", partition_num=4, partition_range=(1, 100)).values.tolist())
                ),
                "arrays": lambda read=read: read("SELECT ARRAY[1, 2] AS a, TIME '01:02:03' AS t", return_type="pandas"),
            }.items()
        }
    found["arrow"] = lambda: cx.read_sql(url, "SELECT id, i8, f, s, b, d, t FROM f_types ORDER BY id", return_type="arrow").to_pydict()
    found["columns"] = lambda: cx.get_meta(url, "SELECT * FROM f_types").dtypes.astype(str).to_dict()
    return found
