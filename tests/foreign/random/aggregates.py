"""Random calls of aggregates and window functions that have one answer, whatever the order of the rows."""

from expressions import Literal, Named
from nodes import Alive, Many, Maybe, Node, below

DIRECTIONS = ["", "", " DESC", " ASC", " NULLS FIRST", " DESC NULLS LAST", " ASC NULLS FIRST", " DESC NULLS FIRST"]
STARTS = ["UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING"]
ENDS = ["UNBOUNDED FOLLOWING", "2 FOLLOWING", "1 FOLLOWING", "CURRENT ROW", "1 PRECEDING"]
EXCLUDED = ["CURRENT ROW", "GROUP", "TIES", "NO OTHERS"]


class Aggregates:
    def aggregate(self, type, scope):
        """An aggregate of a type over the rows of a scope; mostly one that their cube keeps, if they have one."""
        if scope.measures and self.chance(0.85) and (found := self.measured(type, scope)):
            return found
        scope = scope.alone()
        fuel, self.fuel = self.fuel, 0
        call = self.plain_aggregate(type, scope)
        if self.chance(0.2):
            call = (*call, Maybe(" FILTER (WHERE ", self.predicate(scope, 1), ")"))
        if type == "num" and call[0] in ("avg(", "stddev_samp(", "var_pop(", "stddev_pop("):
            call = ("round(", *call, ", 3)")
        elif type == "int" and call[0].startswith("count"):
            call = (*call, "::int")
        elif type == "text" and call[0].startswith("array_agg"):
            call = (*call, "::text")
        self.fuel = fuel
        return self.make(type, *call)

    def plain_aggregate(self, type, scope):
        rng = self.rng
        one = lambda of=type: self.expr(of, scope, 1)
        any_type = lambda: one(rng.choice(["int", "text", "date", "num", "bool", "ts", "big"]))
        extreme = lambda: (rng.choice(["min(", "max("]), one(), ")")
        choices = {
            "int": [extreme, extreme, lambda: ("count(*)",), lambda: (rng.choice(["bit_or(", "bit_and("]), one(), ")")],
            "big": [
                lambda: ("count(*)",),
                lambda: ("count(", any_type(), ")"),
                lambda: ("count(DISTINCT ", any_type(), ")"),
                lambda: ("sum(", one("int"), ")"),
                lambda: ("sum(DISTINCT ", one("int"), ")"),
                extreme,
            ],
            "num": [
                lambda: ("sum(", one(rng.choice(["num", "big"])), ")"),
                lambda: ("sum(DISTINCT ", one(), ")"),
                lambda: ("avg(", one(rng.choice(["num", "int", "big"])), ")"),
                lambda: ("avg(DISTINCT ", one(rng.choice(["num", "int"])), ")"),
                lambda: (rng.choice(["stddev_samp(", "var_pop(", "stddev_pop("]), one(rng.choice(["num", "int"])), ")"),
                extreme,
            ],
            "dbl": [
                lambda: ("sum(", one(), ")"),
                lambda: ("avg(", one(), ")"),
                extreme,
                lambda: (f"percentile_cont({rng.choice(['0.5', '0.25', '1'])}) WITHIN GROUP (ORDER BY ", one(), ")"),
            ],
            "text": [extreme, lambda: self.list_of_texts(scope), lambda: self.list_of(rng.choice(["int", "text", "date"]), scope)],
            "bool": [lambda: (rng.choice(["bool_and(", "bool_or(", "every("]), one(), ")")],
        }
        return rng.choice(choices.get(type, [extreme, extreme, lambda: ("percentile_disc(0.5) WITHIN GROUP (ORDER BY ", one(), ")")]))()

    def list_of_texts(self, scope):
        value = self.expr("text", scope, 1)
        if self.chance(0.3):
            return "string_agg(DISTINCT ", value, ", ',' ORDER BY ", value, ")"
        return "string_agg(", value, ", ',' ORDER BY ", self.before(scope), value, self.direction(), ")"

    def list_of(self, type, scope):
        value = self.expr(type, scope, 1)
        if not self.may("constant_order"):
            value.kept = True
            if isinstance(value, Literal):
                value = self.term(scope)
        return "array_agg(", self.rng.choice(["", "", "DISTINCT "]), value, " ORDER BY ", value, self.direction(), ")"

    def before(self, scope):
        if self.chance(0.6):
            return ""
        first = self.expr("int", scope, 0)
        # A constant is no position here.
        return Maybe(first, self.direction(), ", ") if self.may("constant_order") or isinstance(first, Named) else ""

    def direction(self):
        return self.rng.choice(DIRECTIONS)

    def window(self, type, scope):
        """A window function of a type, over rows or over groups."""
        rng = self.rng
        call, ordered = self.window_call(type, scope)
        parts = []
        if self.chance(0.5):
            parts.append(Maybe("PARTITION BY ", Many([self.term(scope) for _ in range(rng.choice([1, 1, 2]))]), " "))
        frame = rng.choice(["", "", "ROWS", "RANGE", "GROUPS"]) if self.may("frames") else ""
        ordered = ordered or frame == "ROWS"
        if ordered and not scope.unique:
            if scope.numbered:
                (call, ordered), frame = self.window_aggregate(type, scope), ""
            scope.numbered = True
        keys = [self.term(scope) for _ in range(rng.choice([0, 1, 1, 2]))]
        by_value = frame == "RANGE" and self.chance(0.4) and not ordered
        if by_value:
            keys = [self.make("int", self.leaf("int", scope))]
        if frame in ("RANGE", "GROUPS") and not keys:
            keys = [self.term(scope)]
        keys = [Node(key, self.direction()) for key in keys]
        # The keys that are written last make the order total: where two rows are the same in them, they are the same in all.
        last = self.total(scope) if ordered else []
        if keys or last:
            keys = Many(keys, least=0, fixed=frame in ("RANGE", "GROUPS"))
            parts.append(Many([keys, Many(last, fixed=True)], before="ORDER BY ", after=" ", fixed=True))
        if frame:
            parts.append(self.frame(frame, by_value))
        return self.make(type, *call, " OVER (", *parts, ")")

    def term(self, scope):
        """What can be grouped or ordered by: no constant, which would be a position."""
        for _ in range(5):
            found = self.expr(self.rng.choice(["int", "int", "text", "date", "num", "bool", "big", "ts"]), scope, self.rng.choice([0, 0, 1]))
            if any(isinstance(node, Named) for node in below(found, itself=True)):
                found.kept = True
                found.whole = getattr(found, "whole", found.sql())
                return found
        found = self.make("int", "(1 + 1)")
        found.whole = found.sql()
        return found

    def total(self, scope):
        if scope.groups is not None:
            keys = [Node(key, self.direction()) for key in scope.groups]
            return keys + ([Node("grouping(", Many(scope.groups), ")")] if scope.sets else [])
        return [Alive(text, relation, self.direction()) for text, relation in scope.key]

    def frame(self, frame, by_value):
        starts, ends = STARTS, ENDS
        if frame == "RANGE" and not by_value:
            starts, ends = ["UNBOUNDED PRECEDING", "CURRENT ROW"], ["UNBOUNDED FOLLOWING", "CURRENT ROW"]
        start, end = self.rng.choice(starts), self.rng.choice(ends)
        if start.endswith("FOLLOWING") and not end.endswith("FOLLOWING"):
            end = "2 FOLLOWING"
        if start == "CURRENT ROW" and end.endswith("PRECEDING"):
            start = "2 PRECEDING"
        exclude = Maybe(f" EXCLUDE {self.rng.choice(EXCLUDED)}") if self.may("exclude") and self.chance(0.15) else ""
        return Maybe(f"{frame} BETWEEN {start} AND {end}", exclude)

    def window_call(self, type, scope):
        """(parts, whether it needs a total order)."""
        rng = self.rng
        value = lambda of=type: self.expr(of, scope, 1)
        pick = rng.randrange(6)
        if pick == 0:
            parts = [rng.choice(["lag(", "lead("]), value()]
            if self.chance(0.6):
                parts += [Maybe(", ", self.number(0, 1, 2, 3), Maybe(", ", self.literal(type)) if self.chance(0.6) else "")]
            return (*parts, ")"), True
        if pick == 1:
            return (rng.choice(["first_value(", "last_value("]), value(), ")"), True
        if pick == 2:
            return ("nth_value(", value(), ", ", self.number(1, 2, 3), ")"), True
        if type == "big" and pick < 5:
            name = rng.choice(["row_number()", "rank()", "dense_rank()"])
            return (name,), name == "row_number()"
        if type == "int" and pick < 5:
            return ("ntile(", self.number(1, 2, 3), ")"), True
        if type == "dbl" and pick < 4:
            return (rng.choice(["percent_rank()", "cume_dist()"]),), False
        return self.window_aggregate(type, scope)

    def window_aggregate(self, type, scope):
        value = lambda of=type: self.expr(of, scope, 1)
        calls = {
            "int": [lambda: ("min(", value(), ")"), lambda: ("max(", value(), ")")],
            "big": [lambda: ("count(*)",), lambda: ("count(", value("text"), ")"), lambda: ("sum(", value("int"), ")")],
            "num": [lambda: ("sum(", value(), ")"), lambda: ("sum(", value("big"), ")")],
            "dbl": [lambda: ("sum(", value(), ")"), lambda: ("avg(", value(), ")")],
            "bool": [lambda: ("bool_and(", value(), ")"), lambda: ("bool_or(", value(), ")")],
        }
        extreme = [lambda: ("min(", value(), ")"), lambda: ("max(", value(), ")")]
        call = self.rng.choice(calls.get(type, extreme))()
        if self.chance(0.15) and scope.groups is None:
            call = (*call, Maybe(" FILTER (WHERE ", self.predicate(scope, 0), ")"))
        return call, False
