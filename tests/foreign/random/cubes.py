"""Random cubes over the random tables, and queries that they can answer.

A cube is made over one table or a join of two. Its dimensions are columns and expressions over them, its measures aggregates that the
grammar draws from all columns. A query over it groups and filters by expressions over the dimensions, and asks for its measures and for
aggregates of dimensions. So most of them are answered from a cube, by way of cuboids with more dimensions than are asked for,
conditions of aggregates, and rows that are newer than the cube.
"""

from expressions import Column, Named, Scope
from nodes import Many, Maybe, Node

MEASURED = ["big", "big", "num", "num", "int", "int", "dbl", "text", "date", "ts", "bool"]
# Their results depend on the order of rows, or their states would be all values.
NOT_KEPT = ("percentile", "array_agg", "string_agg")
STEPS = {"int": ["1", "3", "10"], "big": ["2", "20"], "date": ["INTERVAL '1 month'", "INTERVAL '1 week'"], "ts": ["INTERVAL '1 month'", "INTERVAL '3 days'"]}


class Measure:
    """An aggregate, and the text around it that queries of the grammar give one of its type."""

    def __init__(self, type, before, call, after):
        self.type, self.before, self.call, self.after = type, before, call, after


class Cube:
    """`sources` are the ways to write its tables; of several, those with a comma need the condition `on`."""

    def __init__(self, name, tables, sources, on, where, dimensions, measures, grouping, division):
        self.name, self.tables, self.sources, self.on, self.where = name, tables, sources, on, where
        self.dimensions, self.measures, self.grouping, self.division = dimensions, measures, grouping, division

    def create(self, measures):
        where = f" WHERE {self.where}" if self.where else ""
        calls = ", ".join(measure.call for measure in measures)
        return f"CREATE CUBE {self.name}{self.division} AS SELECT {calls} FROM {self.sources[0]}{where} GROUP BY {self.grouping}"


class Cubes:
    """What the grammar needs to make cubes and to ask them. `cubes` are those of the tables of now."""

    cubes = ()

    def cube(self, name):
        """A cube without subqueries in it."""
        self.fuel = 0
        first, second = self.rng.choice(self.tables), None
        columns = columns_of(first, "a")
        sources, on = [f"{first.name} a"], None
        if self.chance(0.4):
            second = self.rng.choice(self.tables)
            joined = columns_of(second, "b")
            pairs = [(one, other) for one in columns for other in joined if one.type == other.type and one.type != "bool"]
            if pairs:
                one, other = self.rng.choice(pairs)
                left = self.chance(0.25)
                on = f"{one.text} = {other.text}"
                sources = [f"{first.name} a {'LEFT ' if left else ''}JOIN {second.name} b ON {on}"]
                if not left:
                    sources += [f"{second.name} b JOIN {first.name} a ON {other.text} = {one.text}", f"{first.name} a, {second.name} b"]
                columns = columns + joined
            else:
                second = None
        scope = Scope(columns)
        where = self.predicate(scope, 1).sql() if self.chance(0.15) else ""
        dimensions = self.dimensions(scope)
        measures = [Measure("big", "", "count(*)", "")] + [self.measure(scope) for _ in range(self.rng.randint(3, 12))]
        measures = list({measure.call: measure for measure in measures}.values())
        tables = [first] + ([second] if second else [])
        return Cube(name, tables, sources, on, where, dimensions, measures, self.grouping(dimensions), self.division(first))

    def dimensions(self, scope):
        found = []
        for _ in range(self.rng.randint(1, 5)):
            term = Named(self.rng.choice(scope.columns)) if self.chance(0.75) else self.term(scope)
            if term.sql() not in [other.text for other in found] and "SELECT" not in term.sql() and "." in term.sql():
                found.append(Column(term.sql(), term.type, term.sql(), None))
        return found

    def measure(self, scope):
        while True:
            type = self.rng.choice(MEASURED)
            call = Node(*self.plain_aggregate(type, scope)).sql()
            if call.startswith(NOT_KEPT):
                continue
            rounded = type == "num" and call.startswith(("avg(", "stddev", "var"))
            before, after = ("round(", ", 3)") if rounded else ("", "::int" if type == "int" and call.startswith("count") else "")
            if self.chance(0.15):
                call += f" FILTER (WHERE {self.predicate(scope, 1).sql()})"
            return Measure(type, before, call, after)

    def grouping(self, dimensions):
        texts = [dimension.text for dimension in dimensions]
        every = ", ".join(texts)
        pick = self.rng.randrange(5)
        if not texts:
            return "()"
        if pick == 0:
            return f"CUBE ({every})"
        if pick == 1:
            return f"ROLLUP ({every})"
        if pick == 2:
            some = ", ".join(self.rng.sample(texts, self.rng.randint(1, len(texts))))
            return f"GROUPING SETS (({every}), ({some}), ())"
        return every

    def division(self, table):
        columns = [column for column in table.columns if column.type in STEPS]
        if not columns or not self.chance(0.4):
            return ""
        column = self.rng.choice(columns)
        return f" PARTITION BY RANGE ({column.name}) EVERY {self.rng.choice(STEPS[column.type])}"

    def from_cube(self, cube):
        """The relation of a query over a cube, the scope of its dimensions, and its conditions."""
        text = self.rng.choice(cube.sources)
        node = Node(text, kind="relation")
        columns = [Column(one.name, one.type, one.text, node) for one in cube.dimensions]
        scope = Scope(columns)
        scope.measures = cube.measures
        needed = [cube.where] if cube.where else []
        needed += [cube.on] if "," in text else []
        more = [self.predicate(scope, self.rng.choice([0, 1, 2]))] if self.chance(0.6) and columns else []
        where = " WHERE " + " AND ".join(needed) if needed else ""
        return node, scope, Node(where, Maybe(" AND " if needed else " WHERE ", *more)) if more else where

    def measured(self, type, scope):
        """A measure of the type, sometimes of some of the rows only; None if the cube has none."""
        found = [measure for measure in scope.measures if measure.type == type]
        if not found:
            return None
        measure = self.rng.choice(found)
        condition = ""
        if "FILTER" not in measure.call and scope.columns and self.chance(0.15):
            fuel, self.fuel = self.fuel, 0
            condition = Maybe(" FILTER (WHERE ", self.predicate(scope.alone(), 1), ")")
            self.fuel = fuel
        return self.make(type, measure.before, measure.call, condition, measure.after)


def columns_of(table, alias):
    return [Column(column.name, column.type, f"{alias}.{column.name}", None) for column in table.columns]


def build(cubes, server, tables, refused, failed):
    """Makes and builds the cubes of these tables, and returns those that are there. Measures that are refused are left out."""
    made = []
    for cube in cubes:
        if any(table.name not in tables for table in cube.tables):
            continue
        answer = server.ask(cube.create(cube.measures))
        if answer.error:
            cube.measures = [measure for measure in cube.measures if kept(cube, measure, server, refused)]
            answer = server.ask(cube.create(cube.measures)) if cube.measures else answer
        if answer.error:
            refused(answer.error, cube.create(cube.measures))
            continue
        answer = server.ask(f"BUILD CUBE {cube.name}")
        if answer.error:
            failed(answer.error, cube.create(cube.measures), tables)
            continue
        made.append(cube)
    return made


def kept(cube, measure, server, refused):
    """Whether there can be a cube with this measure alone."""
    sql = cube.create([measure])
    answer = server.ask(sql)
    if answer.error:
        refused(answer.error, sql)
        return False
    server.do(f"DROP CUBE {cube.name}")
    return True
