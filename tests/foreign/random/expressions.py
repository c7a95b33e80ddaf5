"""Random expressions of a type, over what a scope offers."""

from nodes import Many, Maybe, Node
from tables import TEXTS

TYPES = ["int", "int", "int", "big", "num", "dbl", "text", "text", "date", "ts", "bool"]
SQL_TYPES = {"int": "int", "big": "bigint", "num": "numeric", "dbl": "float8", "text": "text", "date": "date", "ts": "timestamp"}
SQL_TYPES |= {"bool": "boolean"}
COMPARED = ["=", "=", "=", "<>", "<", "<=", ">", ">="]
PATTERNS = ["a%", "%b", "%", "_", "a_c", "%a%", "", "\\%%", "x\\_y", "%B%", "_%", "a%b"]
REGULAR = ["^a", "b$", "a.*b", "^$", "[a-c]+", "a|z", "^.{2}$", "B"]
SIMILAR = ["a%", "(a|b)%", "_b*", "[a-c]+", "%z", "a(b|c)?%"]
UNITS = ["year", "month", "day", "dow", "doy", "quarter", "week"]


class Literal(Node):
    """A constant; `roll` gives it another value, for a second question of the same shape."""

    kind = "expression"

    def __init__(self, type, roll):
        super().__init__(roll(), type=type)
        self.roll = roll

    def again(self):
        self.parts = [self.roll()]


class Named(Node):
    """A column by its name."""

    def __init__(self, column):
        super().__init__(column.text, kind="expression", type=column.type)
        self.whole = column.whole


class Column:
    """A column that a scope offers: its name, its type, how it is written, and of which relation it is."""

    def __init__(self, name, type, text, relation, whole=None):
        self.name, self.type, self.text, self.relation = name, type, text, relation
        # With its table, also where it is written without.
        self.whole = whole or text


class Scope:
    """What an expression can name. `groups`: the keys, if rows were grouped; `rows` is then the scope of the arguments of aggregates."""

    def __init__(self, columns, key=(), outer=None, groups=None, rows=None):
        self.columns, self.key, self.outer, self.groups, self.rows = columns, list(key), outer, groups, rows
        self.sets = False
        # Where rows may be equal in all columns, two windows with total orders may number them in two ways: one is permitted.
        self.unique, self.numbered = True, False
        # Of the cube that can answer queries over these rows.
        self.measures = ()

    def alone(self):
        """Without the queries around: for arguments of aggregates, which would belong to those."""
        return Scope(self.columns, self.key)


class Expressions:
    """Each function gives a Node of the kind `expression`. `depth` is how many more operators may be within each other."""

    def make(self, type, *parts):
        return Node(*parts, kind="expression", type=type)

    def expr(self, type, scope, depth):
        if depth <= 0 or self.chance(0.3):
            return self.leaf(type, scope)
        if type == "bool" and self.chance(0.8):
            return self.predicate(scope, depth)
        if self.chance(0.35):
            return self.of_any_type(type, scope, depth - 1)
        return getattr(self, type + "_expr")(scope, depth - 1)

    def leaf(self, type, scope):
        if scope.groups is not None:
            keys = [key for key in scope.groups if key.type == type]
            if keys and self.chance(0.6):
                return self.rng.choice(keys)
            if scope.rows is not None and self.chance(0.85):
                return self.aggregate(type, scope.rows)
            return self.literal(type)
        columns = [column for column in scope.columns if column.type == type]
        outer, level = [], scope.outer
        while level is not None:
            outer += [column for column in level.columns if column.type == type and "." in column.text]
            level = level.outer
        if outer and self.chance(0.35):
            columns = outer
        if columns and self.chance(0.85):
            return Named(self.rng.choice(columns))
        return self.literal(type)

    def literal(self, type, nulls=0.06):
        def roll():
            if self.chance(nulls):
                return f"NULL::{SQL_TYPES[type]}"
            rng = self.rng
            if type == "int":
                return str(rng.choice([0, 1, 2, 3, 5])) if rng.random() < 0.8 else f"({rng.randint(-3, -1)})"
            if type == "big":
                return f"{rng.randint(0, 9)}::bigint"
            if type == "num":
                return f"{rng.randint(0, 12) / 4}" if rng.random() < 0.7 else f"{rng.randint(1, 9)}.{rng.randint(0, 99):02}"
            if type == "dbl":
                return f"{rng.randint(1, 12) / 4}::float8"
            if type == "text":
                return "'" + rng.choice(TEXTS) + "'" + rng.choice(["", "", "::text"])
            if type == "date":
                return f"DATE '2024-01-0{rng.randint(1, 7)}'"
            if type == "ts":
                return f"TIMESTAMP '2024-01-0{rng.randint(1, 7)} {rng.choice(['00:00:00', '12:30:00'])}'"
            return rng.choice(["true", "false"])

        return Literal(type, roll)

    def number(self, *values):
        """A constant that is not NULL, of a few."""
        return Literal("int", lambda: str(self.rng.choice(values)))

    def of_any_type(self, type, scope, depth):
        one = lambda: self.expr(type, scope, depth)
        pick = self.rng.randrange(9 if self.may("subqueries") and self.fuel > 0 else 7)
        if pick == 0:
            return self.make(type, "CASE WHEN ", self.predicate(scope, depth), " THEN ", one(), self.maybe(" ELSE ", one()), " END")
        if pick == 1:
            of = self.rng.choice(["int", "text", "bool", "date"])
            arms = [Node(" WHEN ", self.literal(of), " THEN ", one()) for _ in range(self.rng.randint(1, 3))]
            return self.make(type, "CASE ", self.expr(of, scope, depth), Many(arms, between=""), self.maybe(" ELSE ", one()), " END")
        if pick == 2:
            return self.make(type, "coalesce(", one(), ", ", one(), ")")
        if pick in (3, 4) and (type != "dbl" or self.may("zero")):
            return self.make(type, "nullif(", one(), ", ", one() if self.chance(0.4) else self.literal(type), ")")
        if pick in (5, 6) and type != "bool":
            return self.make(type, self.rng.choice(["greatest", "least"]), "(", one(), ", ", one(), ")")
        if pick >= 7:
            return self.make(type, "(", self.one_value(type, scope, depth), ")")
        return one()

    def maybe(self, *parts):
        return Maybe(*parts) if self.chance(0.7) else ""

    def int_expr(self, scope, depth):
        one = lambda type="int": self.expr(type, scope, depth)
        return self.make("int", *self.rng.choice([
            lambda: ("(", one(), self.rng.choice([" + ", " - "]), one(), ")"),
            lambda: ("(", self.leaf("int", scope), " * ", self.number(0, 1, 2, 3), ")"),
            lambda: ("(", one(), self.rng.choice([" / ", " % "]), self.number(2, 3, 5), ")"),
            lambda: ("(", one(), self.rng.choice([" / ", " % "]), "nullif(", one(), ", 0))"),
            lambda: ("abs(", one(), ")"),
            lambda: ("(- ", one(), ")"),
            lambda: ("length(", one("text"), ")"),
            lambda: ("strpos(", one("text"), ", ", self.literal("text"), ")"),
            lambda: ("(", one("date"), " - ", one("date"), ")"),
            lambda: ("extract(", self.rng.choice(UNITS), " FROM ", one(self.rng.choice(["date", "ts"])), ")::int"),
            lambda: (one("bool"), "::int") if self.chance(0.1) else ("(", one("bool"), ")::int"),
            lambda: ("(", one("num"), ")::int"),
            *([lambda: ("(", one(), self.rng.choice([" & ", " | "]), one(), ")")] if self.may("bits") else []),
        ])())

    def big_expr(self, scope, depth):
        one = lambda type="big": self.expr(type, scope, depth)
        return self.make("big", *self.rng.choice([
            lambda: ("(", one(), self.rng.choice([" + ", " - "]), one("int"), ")"),
            lambda: ("(", one("int"), ")::bigint"),
            lambda: ("(", self.leaf("big", scope), " * ", self.number(0, 1, 2), ")"),
            lambda: ("(", one(), " / ", self.number(2, 3), ")"),
            lambda: ("mod(", one(), ", ", self.number(2, 3), ")"),
        ])())

    def num_expr(self, scope, depth):
        one = lambda type="num": self.expr(type, scope, depth)
        return self.make("num", *self.rng.choice([
            lambda: ("(", one(), self.rng.choice([" + ", " - "]), one(self.rng.choice(["num", "int"])), ")"),
            lambda: ("(", self.leaf("num", scope), " * ", self.number(0, 1, 2, 3), ")"),
            lambda: ("round(", one(), " / ", self.number(2, 3, 4), ", 3)"),
            lambda: ("round(", one(), ", ", self.number(0, 1), ")"),
            lambda: (self.rng.choice(["floor(", "ceil(", "trunc(", "abs("]), one(), ")"),
            lambda: ("(", one("int"), ")::numeric"),
        ])())

    def dbl_expr(self, scope, depth):
        one = lambda type="dbl": self.expr(type, scope, depth)
        return self.make("dbl", *self.rng.choice([
            lambda: ("(", one(), self.rng.choice([" + ", " - "]), one(self.rng.choice(["dbl", "int"])), ")"),
            lambda: ("(", one(), " * 0.5)"),
            lambda: (self.rng.choice(["floor(", "abs("]), one(), ")"),
            lambda: ("(", one(self.rng.choice(["int", "num"])), ")::float8"),
        ])())

    def text_expr(self, scope, depth):
        one = lambda type="text": self.expr(type, scope, depth)
        return self.make("text", *self.rng.choice([
            lambda: ("(", one(), " || ", one(), ")"),
            lambda: (self.rng.choice(["lower(", "upper(", "trim(", "reverse(", "initcap("]), one(), ")"),
            lambda: ("substr(", one(), ", ", self.number(1, 2, 0), ", ", self.number(1, 2), ")"),
            lambda: (self.rng.choice(["left(", "right("]), one(), ", ", self.number(1, 2, 0), ")"),
            lambda: ("replace(", one(), ", ", self.literal("text"), ", ", self.literal("text"), ")"),
            lambda: ("lpad(", one(), ", ", self.number(2, 4), ", '*')"),
            lambda: ("repeat(", one(), ", ", self.number(0, 1, 2), ")"),
            lambda: ("concat(", one(), ", ", one("int"), ")"),
            lambda: ("concat_ws('-', ", one(), ", ", one(), ")"),
            lambda: ("split_part(", one(), ", 'b', ", self.number(1, 2), ")"),
            lambda: ("(", one(self.rng.choice(["int", "big", "date", "bool", "ts"])), ")::text"),
        ])())

    def date_expr(self, scope, depth):
        one = lambda type="date": self.expr(type, scope, depth)
        return self.make("date", *self.rng.choice([
            lambda: ("(", one(), self.rng.choice([" + ", " - "]), self.leaf("int", scope), ")"),
            lambda: ("(", one("ts"), ")::date"),
            lambda: ("(date_trunc('", self.rng.choice(["month", "week", "year"]), "', ", one("ts"), "))::date"),
        ])())

    def ts_expr(self, scope, depth):
        one = lambda type="ts": self.expr(type, scope, depth)
        return self.make("ts", *self.rng.choice([
            lambda: ("(", one(), self.rng.choice([" + ", " - "]), "INTERVAL '", self.rng.choice(["1 day", "1 month", "90 minutes"]), "')"),
            lambda: ("(", one("date"), " + INTERVAL '", self.rng.choice(["1 day", "1 month", "12 hours"]), "')"),
            lambda: ("date_trunc('", self.rng.choice(["hour", "day", "month", "week"]), "', ", one(), ")"),
            lambda: ("(", one("date"), ")::timestamp"),
        ])())

    def bool_expr(self, scope, depth):
        return self.predicate(scope, depth)

    def predicate(self, scope, depth):
        rng = self.rng
        if self.fuel > 0 and depth > 0 and self.may("subqueries") and self.chance(0.22):
            return self.of_subquery(scope, depth - 1)
        kinds = ["int", "int", "big", "num", "dbl", "text", "date", "ts", "bool"]
        kind = rng.choice([column.type for column in scope.columns] if scope.measures and self.chance(0.9) else kinds)
        one = lambda type=kind: self.expr(type, scope, depth - 1)
        right = lambda: one() if self.chance(0.5) else self.literal(kind)
        text = rng.choice(["", "NOT "])
        between = rng.choice(["BETWEEN ", "BETWEEN ", "BETWEEN SYMMETRIC "] if self.may("symmetric") else ["BETWEEN "])
        choices = [
            lambda: ("(", one(), f" {rng.choice(COMPARED)} ", right(), ")"),
            lambda: ("(", one(), f" {rng.choice(COMPARED)} ", right(), ")"),
            lambda: ("(", one(), f" IS {text}DISTINCT FROM ", right(), ")"),
            lambda: ("(", one(), f" IS {text}NULL)"),
            lambda: ("(", one(), f" {text}{between}", right(), " AND ", right(), ")"),
            lambda: ("(", one(), f" {text}IN ", Many([right() for _ in range(rng.choice([1, 2, 3, 5]))], "(", after=")"), ")"),
            lambda: ("(", one("text"), f" {text}", rng.choice(["LIKE", "ILIKE"]), " ", self.constant(PATTERNS), ")"),
            lambda: ("(", one("text"), rng.choice([" ~ ", " ~* ", " !~ "]), self.constant(REGULAR), ")"),
            lambda: ("(", one("bool"), f" IS {text}", rng.choice(["TRUE", "FALSE", "UNKNOWN"]), ")"),
            lambda: ("(", one(), " = ANY (ARRAY[", Many([right() for _ in range(3)]), "]))"),
        ]
        if self.may("similar"):
            choices.append(lambda: ("(", one("text"), f" {text}SIMILAR TO ", self.constant(SIMILAR), ")"))
        if depth > 0:
            both = lambda: self.predicate(scope, depth - 1)
            choices += 3 * [lambda: ("(", both(), rng.choice([" AND ", " OR "]), both(), ")")]
            choices += [lambda: ("(NOT ", both(), ")"), lambda: (self.leaf("bool", scope),)]
        return self.make("bool", *rng.choice(choices)())

    def constant(self, texts):
        return Literal("text", lambda: f"'{self.rng.choice(texts)}'")

    def of_subquery(self, scope, depth):
        rng = self.rng
        kind = rng.choice(["int", "int", "big", "text", "date", "num", "bool"])
        query = lambda *types: self.inner_query(list(types), scope, depth)
        pick = rng.randrange(10)
        if pick < 3:
            return self.make("bool", "(", self.expr(kind, scope, depth), rng.choice([" IN (", " NOT IN ("]), query(kind), "))")
        if pick < 6:
            return self.make("bool", rng.choice(["(EXISTS (", "(NOT EXISTS ("]), query(rng.choice(TYPES)), "))")
        if pick < 8:
            compared = f" {rng.choice(COMPARED)} {rng.choice(['ANY', 'ALL'])} ("
            return self.make("bool", "(", self.expr(kind, scope, depth), compared, query(kind), "))")
        if pick == 8:
            compared = rng.choice(COMPARED if self.may("equal_values") else COMPARED[3:])
            value = self.one_value(kind, scope, depth)
            return self.make("bool", "(", self.expr(kind, scope, depth), f" {compared} (", value, "))")
        other = rng.choice(["int", "text"])
        row = ("(", self.expr(kind, scope, depth), ", ", self.expr(other, scope, depth), ")")
        return self.make("bool", "(", *row, rng.choice([" IN (", " NOT IN ("]), query(kind, other), "))")
