"""Random queries that have one answer."""

from aggregates import Aggregates
from cubes import Cubes
from expressions import TYPES, Column, Expressions, Literal, Scope
from nodes import Items, Key, Many, Maybe, Node
from tables import NAMES

POOL = ["k", "v", "a", "b", "s", "x", "c1", "c2"]


class Item(Node):
    def __init__(self, value, name, written):
        super().__init__(value, *([f" AS {name}"] if written else []))
        self.name = name


class Relation:
    """What stands in FROM: its text, its columns in the order of `*`, those that only a qualified name means, and what tells its rows apart."""

    def __init__(self, node, columns, hidden=(), key=(), joined=False, unique=False):
        self.node, self.columns, self.hidden, self.key, self.joined = node, list(columns), list(hidden), list(key), joined
        # Whether no two rows have the same key.
        self.unique = unique


class Query(Node):
    kind = "query"

    def __init__(self, *parts, lists=(), by=None):
        super().__init__(*parts)
        self.lists, self.by = list(lists), by

    def ordered(self):
        """Whether it still says in which order all its rows come."""
        if isinstance(self.instead, Query):
            return self.instead.ordered()
        return self.by.ordered() if isinstance(self.by, Query) else self.by is not None and not self.by.gone


class Queries(Expressions, Aggregates, Cubes):
    def __init__(self, rng, tables, off=()):
        self.rng, self.tables, self.off = rng, tables, set(off)
        self.fuel, self.aliases, self.named, self.used = 0, 0, [], set()

    def chance(self, share):
        return self.rng.random() < share

    def may(self, part):
        """Whether a part of the grammar is switched on."""
        return part not in self.off

    def alias(self):
        self.aliases += 1
        return f"q{self.aliases}"

    def whole(self):
        """A query to ask, with WITH."""
        self.fuel, self.aliases, self.named, self.used = self.rng.choice([2, 4, 6, 9]), 0, [], set()
        queries = []
        for _ in range(self.rng.choice([0, 0, 0, 1, 2]) if self.may("ctes") else 0):
            name, types = f"w{len(self.named) + 1}", self.types()
            names = self.names(len(types))
            inner = self.inner_query(types, None, 2, names)
            queries.append(Node(name, f"({', '.join(names)})" if self.chance(0.3) else "", " AS (", inner, ")"))
            self.named.append((name, list(zip(names, types))))
        if self.may("recursive") and self.chance(0.05):
            queries.append(Node("r(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < ", self.number(1, 3, 6), ")"))
            self.named.append(("r", [("k", "int")]))
        body = self.query(self.types(), None, 3, order=self.chance(0.5))
        recursive = "RECURSIVE " if any(name == "r" for name, _ in self.named) else ""
        return Query(Many(queries, before=f"WITH {recursive}", after=" ", least=0), body, by=body)

    def names(self, count):
        """Different names for columns, which other relations may have too."""
        if self.may("same_names"):
            return self.rng.sample(POOL, count)
        self.aliases += 1
        return [f"n{self.aliases}_{place}" for place in range(count)]

    def types(self):
        return [self.rng.choice(TYPES) for _ in range(self.rng.choice([1, 2, 2, 3, 4]))]

    def inner_query(self, types, outer, depth, names=None):
        return self.query(types, outer, depth, names, order=self.may("limits") and self.chance(0.2))

    def query(self, types, outer, depth, names=None, order=False):
        self.fuel -= 1
        if self.may("sets") and depth > 0 and self.fuel > 0 and self.chance(0.15):
            return self.combined(types, outer, depth, names, order)
        return self.select(types, outer, depth, names, order)

    def combined(self, types, outer, depth, names, order):
        left = self.query(types, outer, depth - 1, names)
        right = self.query(types, outer, depth - 1)
        operator = self.rng.choice(["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        lists = left.lists + right.lists
        for one in lists:
            one.beside = lists
        tail = self.order(lists[0], forms=["place"]) if order else []
        return Query("(", left, f") {operator} (", right, ")", *tail, lists=lists, by=tail[0] if order else None)

    def select(self, types, outer, depth, names=None, order=False):
        if self.cubes and outer is None and self.chance(0.6):
            return self.select_from_cube(types, names, order)
        relations = [self.relation(outer, depth)]
        if self.fuel > 0 and self.chance(0.15):
            relations.append(self.relation(outer, depth))
        elif self.may("lateral") and self.fuel > 0 and self.chance(0.08):
            relations.append(self.beside(relations[0], outer, depth))
        scope = self.scope(relations, outer)
        where = Maybe(" WHERE ", self.predicate(scope, depth)) if self.chance(0.55) else ""
        kind = self.rng.choice(["rows", "rows", "rows", "groups", "groups", "windows", "first"])
        group, having, distinct = "", "", ""
        if kind == "first" and not (self.may("distinct_on") and outer is None):
            kind = "rows"
        if kind == "groups":
            scope, keys = self.grouped(scope)
        items = self.items(kind, types, scope, names, order)
        if kind == "groups":
            group = self.group_by(keys, items, scope)
            having = Maybe(" HAVING ", self.predicate(scope, 1)) if self.chance(0.25) and (keys or self.may("having_alone")) else ""
        before = []
        if kind == "first":
            on = [self.term(scope) for _ in range(self.rng.choice([1, 1, 2]))]
            distinct = Node("DISTINCT ON (", Many(on, fixed=True), ") ")
            rest = self.total(scope)
            if not self.may("repeated_keys"):
                on = list({one.whole: one for one in on}.values())
                rest = [key for key in rest if key.whole not in {one.whole for one in on}]
            before = [Node(one, self.direction()) for one in on] + rest
            tail = [Many(before, before=" ORDER BY ", fixed=True)]
            order = False
        else:
            distinct = Maybe("DISTINCT ") if self.chance(0.15) else ""
            taken = set() if self.may("taken_names") else {column.name for column in (scope.rows or scope).columns}
            tail = self.order(items, taken) if order else []
        text = ["SELECT ", distinct, items, " FROM ", Many([one.node for one in relations]), where, group, having, *tail]
        return Query(*text, lists=[items], by=tail[0] if order else None)

    def select_from_cube(self, types, names, order):
        """A query over the tables of a cube, grouped by what it has."""
        relation, rows, where = self.from_cube(self.rng.choice(self.cubes))
        scope, keys = self.grouped(rows)
        items = self.items("groups", types, scope, names, order)
        group = self.group_by(keys, items, scope)
        having = Maybe(" HAVING ", self.predicate(scope, 1)) if self.chance(0.2) and keys else ""
        taken = set() if self.may("taken_names") else {column.name for column in rows.columns}
        tail = self.order(items, taken) if order else []
        return Query("SELECT ", items, " FROM ", relation, where, group, having, *tail, lists=[items], by=tail[0] if order else None)

    def items(self, kind, types, scope, names, order):
        """The SELECT list."""
        values = [self.item_value(kind, type, scope) for type in types]
        items = Items([])
        for place, value in enumerate(values):
            name = names[place] if names else f"c{place + 1}"
            items.items.append(Item(value, name, names is not None or self.chance(0.6) or order))
        return items

    def item_value(self, kind, type, scope):
        if (kind == "windows" or kind == "groups" and self.chance(0.15)) and self.may("windows") and self.chance(0.7):
            return self.window(type, scope)
        return self.expr(type, scope, self.rng.choice([0, 1, 2, 2]))

    def order(self, items, taken=(), forms=("place", "name", "expression")):
        """ORDER BY over all items, in any order, and LIMIT and OFFSET."""
        keys = []
        for item in self.rng.sample(items.items, len(items.items)):
            form = self.rng.choice(forms)
            if form == "expression" and isinstance(item.parts[0], Literal) or item.name in taken:
                form = "place"
            keys.append(Key(item, items, form, self.direction()))
        by = Maybe(Many(keys, before=" ORDER BY ", fixed=True))
        if not self.may("limits") or self.chance(0.4):
            return [by]
        limit = Maybe(" LIMIT ", self.number(0, 1, 2, 3, 5, 10), needs=by)
        offset = Maybe(" OFFSET ", self.number(0, 1, 2), needs=by) if self.chance(0.2) else ""
        return [by, limit, offset]

    def one_value(self, type, scope, depth):
        """A query of at most one row."""
        self.fuel -= 1
        relation = self.relation(scope, min(depth, 1))
        inner = self.scope([relation], scope if self.may("correlated") else None)
        where = Maybe(" WHERE ", self.predicate(inner, min(depth, 1))) if self.chance(0.7) else ""
        if self.chance(0.7) or not self.may("limits"):
            over = Scope(inner.columns, groups=[], rows=inner)
            value = self.expr(type, over, 1) if self.chance(0.3) else self.aggregate(type, inner)
            return Query("SELECT ", value, " FROM ", relation.node, where)
        return Query("SELECT ", self.expr(type, inner, 1), " FROM ", relation.node, where, f" ORDER BY 1{self.direction()} LIMIT 1")

    def grouped(self, scope):
        keys = []
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3])):
            found = self.term(scope) if self.chance(0.9) else self.make("int", "(", self.number(1, 2), " + 0)")
            if found.sql() not in [key.sql() for key in keys] and "SELECT" not in found.sql():
                keys.append(found)
        texts = {key.sql() for key in keys}
        columns = [column for column in scope.columns if column.text in texts]
        over = Scope(columns, scope.key, scope.outer, groups=keys, rows=scope)
        # PostgreSQL 15 itself takes constants among grouping sets for constants, where they should be NULL.
        # Groups are told apart by their keys, but a grouping set may be there twice.
        constant = any(key.sql() == "(1 + 1)" or " + 0)" in key.sql() for key in keys)
        over.sets = len(keys) > 0 and not constant and self.may("grouping_sets") and self.chance(0.25)
        over.unique = not over.sets
        return over, keys

    def group_by(self, keys, items, scope):
        if not keys:
            return ""
        if scope.sets:
            return self.grouping_sets(keys)
        taken = {column.name for column in scope.rows.columns}
        written = []
        for key in keys:
            item = next((item for item in items.items if item.parts[0] is key), None)
            form = self.rng.choice(["expression", "place", "name"])
            if item is None or form == "expression" or form == "name" and (item.name in taken or len(item.parts) < 2):
                written.append(key)
            else:
                written.append(Key(item, items, form, ""))
        return Many(written, before=" GROUP BY ")

    def grouping_sets(self, keys):
        pick = self.rng.randrange(4)
        if pick == 0:
            return Many(keys, before=" GROUP BY ROLLUP(", after=")")
        if pick == 1:
            return Many(keys, before=" GROUP BY CUBE(", after=")")
        if pick == 2 and len(keys) > 1:
            return Node(" GROUP BY ", keys[0], Many(keys[1:], before=", ROLLUP(", after=")"))
        sets = [Many(self.rng.sample(keys, self.rng.randint(1, len(keys))), "(", after=")") for _ in range(self.rng.randint(1, 3))]
        sets = [Many(keys, "(", after=")", fixed=True)] + sets + ([Node("()")] if self.chance(0.5) else [])
        return Many(sets, before=" GROUP BY GROUPING SETS (", after=")")

    def scope(self, relations, outer):
        columns = [column for one in relations for column in one.columns]
        hidden = [column for one in relations for column in one.hidden]
        count = {}
        for column in columns:
            count[column.name] = count.get(column.name, 0) + 1
        found = []
        for column in columns:
            single = count[column.name] == 1
            if "." not in column.text and not single:
                continue
            text = column.name if single and self.chance(0.3) else column.text
            found.append(Column(column.name, column.type, text, column.relation, column.text))
        key = [pair for one in relations for pair in one.key]
        scope = Scope(found + hidden, key, outer if self.may("correlated") else None)
        scope.unique = all(one.unique for one in relations)
        return scope

    def relation(self, outer, depth):
        if self.fuel > 0 and depth > 0:
            pick = self.rng.random()
            if pick < 0.42 and self.may("joins"):
                return self.join(outer, depth)
            if pick < 0.6 and self.may("derived"):
                return self.derived(outer, depth)
        if self.chance(0.06):
            return self.series()
        if self.chance(0.06):
            return self.values()
        return self.table()

    def table(self):
        alias = self.alias()
        tables = self.tables if self.may("same_names") else [table for table in self.tables if table.name not in self.used]
        if not tables:
            return self.values()
        if self.named and self.chance(0.5):
            name, columns = self.rng.choice(self.named)
            node = Node(f"{name} {alias}", kind="relation")
            columns = [Column(column, type, f"{alias}.{column}", node) for column, type in columns]
            return Relation(node, columns, key=[(column.text, node) for column in columns])
        table = self.rng.choice(tables)
        self.used.add(table.name)
        node = Node(f"{table.name}{self.rng.choice([' ', ' AS '])}{alias}", kind="relation")
        columns = [Column(column.name, column.type, f"{alias}.{column.name}", node) for column in table.columns]
        key = [(f"{alias}.id", node)] if table.key else [(column.text, node) for column in columns]
        return Relation(node, columns, key=key, unique=table.key)

    def called(self, node, alias, columns):
        columns = [Column(name, type, f"{alias}.{name}", node) for name, type in columns]
        return Relation(node, columns, key=[(column.text, node) for column in columns])

    def series(self):
        alias = self.alias()
        if self.chance(0.5):
            node = Node("generate_series(", self.number(0, 1), ", ", self.number(1, 3, 4), f") AS {alias}(k)", kind="relation")
            return self.called(node, alias, [("k", "int")])
        type = self.rng.choice(["int", "text", "date"])
        node = Node("unnest(ARRAY[", Many([self.literal(type) for _ in range(3)]), f"]) AS {alias}(x)", kind="relation")
        return self.called(node, alias, [("x", type)])

    def values(self):
        alias, types = self.alias(), self.types()
        names = self.names(len(types))
        first = Many([self.literal(type, 0) for type in types], "(", after=")", fixed=True)
        rows = [first] + [Many([self.literal(type) for type in types], "(", after=")", fixed=True) for _ in range(self.rng.randint(0, 3))]
        node = Node("(VALUES ", Many(rows), f") AS {alias}({', '.join(names)})", kind="relation")
        return self.called(node, alias, zip(names, types))

    def derived(self, outer, depth):
        alias, types = self.alias(), self.types()
        names = self.names(len(types))
        if self.chance(0.3) and self.may("stars"):
            return self.star(outer, depth, alias)
        if self.chance(0.06) and self.may("unnest_select"):
            node = Node("(", self.unnested(depth), f") {alias}", kind="relation")
            return self.called(node, alias, [("k", "int"), ("x", "int")])
        listed = self.chance(0.3)
        inner = self.inner_query(types, None, depth - 1, names if not listed else None)
        node = Node("(", inner, f") AS {alias}", f"({', '.join(names)})" if listed else "", kind="relation")
        return self.called(node, alias, zip(names, types))

    def unnested(self, depth):
        relation = self.table()
        scope = self.scope([relation], None)
        key, value = self.make("int", self.leaf("int", scope)), self.make("int", self.leaf("int", scope))
        where = Maybe(" WHERE ", self.predicate(scope, 1)) if self.chance(0.3) else ""
        return Query("SELECT ", key, " AS k, unnest(array_agg(", value, ")) AS x FROM ", relation.node, where, " GROUP BY 1")

    def star(self, outer, depth, alias):
        """All columns of a relation, with new names."""
        self.fuel -= 1
        inner = self.relation(None, depth - 1)
        scope = self.scope([inner], None)
        where = Maybe(" WHERE ", self.predicate(scope, 1)) if self.chance(0.4) else ""
        names = [f"{'c' if self.may('same_names') else alias + '_'}{place + 1}" for place in range(len(inner.columns))]
        query = Query("SELECT * FROM ", inner.node, where)
        node = Node("(", query, f") AS {alias}({', '.join(names)})", kind="relation")
        return self.called(node, alias, zip(names, [column.type for column in inner.columns]))

    def beside(self, left, outer, depth):
        """A LATERAL subquery, or rows of a function of the columns before."""
        scope, alias = self.scope([left], None), self.alias()
        plain = self.may("lateral_functions")
        if plain and self.chance(0.4):
            node = Node("generate_series(1, ", self.make("int", self.leaf("int", scope), " % 4"), f") AS {alias}(x)", kind="relation")
            return self.called(node, alias, [("x", "int")])
        if plain and self.chance(0.3):
            node = Node("unnest(ARRAY[", Many([self.leaf("int", scope) for _ in range(3)]), f"]) AS {alias}(x)", kind="relation")
            return self.called(node, alias, [("x", "int")])
        types = self.types()[:2]
        names = self.names(len(types))
        node = Node("LATERAL (", self.inner_query(types, scope, 1, names), f") AS {alias}", kind="relation")
        return self.called(node, alias, zip(names, types))

    def join(self, outer, depth):
        self.fuel -= 1
        left, right = self.relation(outer, depth - 1), self.relation(outer, depth - 1)
        key = left.key + right.key
        kinds = ["JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]
        kind = self.rng.choice(kinds)
        second = Node("(", right.node, ")") if right.joined and (self.chance(0.9) or not self.may("bare_joins")) else right.node
        if kind == "CROSS JOIN":
            node = Node(left.node, " CROSS JOIN ", second, kind="relation")
            return Relation(node, left.columns + right.columns, left.hidden + right.hidden, key, True, left.unique and right.unique)
        merged = self.mergeable(left, right)
        pick = self.rng.random()
        if merged and pick < 0.3 and self.may("using"):
            every = [name for name in merged if name is not None]
            sided = kind.split()[0] in ("LEFT", "RIGHT", "FULL")
            natural = self.may("natural_outer" if sided else "natural") and self.chance(0.35) and None not in merged
            names = every if natural else self.rng.sample(every, self.rng.randint(1, min(2, len(every)))) if every else []
            if names:
                return self.merged(left, right, second, kind, names, natural, key)
        scope = self.scope([left, right], outer if self.chance(0.2) else None)
        condition = self.join_condition(left, right, scope, kind, depth)
        node = Node(left.node, f" {kind} ", second, " ON ", condition, kind="relation")
        return Relation(node, left.columns + right.columns, left.hidden + right.hidden, key, True, left.unique and right.unique)

    def join_condition(self, left, right, scope, kind, depth):
        pairs = [(a, b) for a in left.columns for b in right.columns if a.type == b.type and "." in a.text and "." in b.text]
        if not pairs or self.chance(0.12) and kind != "FULL JOIN":
            fuel, self.fuel = self.fuel, 0 if kind == "FULL JOIN" else self.fuel
            found = self.predicate(scope, 1)
            self.fuel = fuel
            return found
        alike = [(a, b) for a, b in pairs if a.name == b.name]
        a, b = self.rng.choice(alike if alike and self.chance(0.5) else pairs)
        equal = self.make("bool", f"{a.text} = {b.text}")
        if kind != "FULL JOIN" and self.chance(0.3):
            return Node(equal, Maybe(" AND ", self.predicate(scope, 1)))
        return equal

    def mergeable(self, left, right):
        """Names that both sides have once and with one type; None is among them if a name is there that they could not merge by."""
        found = []
        for name in {column.name for column in left.columns} & {column.name for column in right.columns}:
            a = [column for column in left.columns if column.name == name]
            b = [column for column in right.columns if column.name == name]
            found.append(name if len(a) == len(b) == 1 and a[0].type == b[0].type else None)
        return sorted(found, key=str)

    def merged(self, left, right, second, kind, names, natural, key):
        if natural:
            node = Node(left.node, f" NATURAL {kind} ", second, kind="relation")
        else:
            node = Node(left.node, f" {kind} ", second, f" USING ({', '.join(names)})", kind="relation")
        order = [column.name for column in left.columns if column.name in names] if natural else names
        types = {column.name: column.type for column in left.columns}
        columns = [Column(name, types[name], name, node) for name in order]
        rest = [column for column in left.columns + right.columns if column.name not in names]
        gone = [column for column in left.columns + right.columns if column.name in names and "." in column.text]
        return Relation(node, columns + rest, left.hidden + right.hidden + gone, key, True, left.unique and right.unique)
