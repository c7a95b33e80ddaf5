#!/usr/bin/env python3
"""Asks PostgreSQL and Nyala the same random queries over the same small tables.

    ask.py --postgres 'host=…' --nyala 'host=…' --folder FOLDER [--count 10000] [--seed 1] [--start 0] [--off part,…] [--most 20] [--cubes]

Exits with 1 if an answer of Nyala differs from PostgreSQL's or a server is at fault. Errors of Nyala alone are counted by their messages.
"""

import argparse
import collections
import random
import re
import sys
import time
from pathlib import Path

import cubes
import tables as data
from answers import Server
from expressions import Literal
from nodes import below, write
from queries import Queries
from shrink import smaller_query, smaller_tables

PER_TABLES = 150
TIMEOUT = "SET statement_timeout = '10s'"
# Where Nyala keeps the tables, and with how many rows and threads at a time it computes: a batch of three rows has many edges.
PLACES = [("live", None, None), ("files", None, None), ("live", 3, 4), ("files", 2, 3), ("files", 8192, 1), ("live", 2, 1)]
# The same with cubes over them.
CUBED = [("cubed_live", None, None), ("cubed_files", None, None), ("cubed_live", 3, 4), ("cubed_files", 2, 3)]
CUBES = 6


class Run:
    def __init__(self, options):
        self.options = options
        self.postgres = Server(options.postgres, [TIMEOUT])
        places = CUBED if options.cubes else PLACES
        self.places = [(place_name(*place), Server(options.nyala, [TIMEOUT, *settings(*place)])) for place in places]
        self.cubes, self.hits = [], 0
        self.counts = collections.Counter()
        self.errors = collections.Counter()
        self.examples = {}
        self.failures = 0

    def load(self, tables):
        live, files, folder = self.places[0][1], self.places[1][1], Path(self.options.folder)
        if not self.options.cubes:
            return data.load(tables, self.postgres, live, files, folder)
        self.drop_cubes()
        names = {table.name for table in tables}
        built = lambda server: cubes.build(self.cubes, server, names, self.refused, self.failed)
        data.load_with_cubes(tables, self.postgres, live, files, folder, built)

    def refused(self, error, sql):
        self.count_error("cube refused", error, sql)

    def failed(self, error, sql, names):
        """A build that ends with an error is a failure, whatever the cube is."""
        self.counts["fault"] += 1
        if self.count_error("build failed", error, sql):
            self.failures += 1
            rows = [f"{table.create()}; {table.insert() or ''}" for table in self.tables if table.name in names and re.search(rf"\b{table.name}\b", sql)]
            print(f"\n=== build failed: {error}\n  {sql}", *rows, sep="\n  ", flush=True)

    def drop_cubes(self):
        self.hits += int(self.places[0][1].ask("SELECT coalesce(sum(hits), 0) FROM system.cuboids").rows[0][0])
        for _, server in self.places[:2]:
            for cube in self.cubes:
                server.do(f"DROP CUBE IF EXISTS {cube.name}")

    def prepare(self, seed):
        """Other tables, cubes over them, and the grammar that knows them."""
        self.tables = data.tables(random.Random(seed), "same_names" not in self.options.off)
        self.queries = Queries(random.Random(f"{seed} cubes"), self.tables, self.options.off)
        if self.options.cubes:
            self.drop_cubes()
            self.cubes = [self.queries.cube(f"c{number}") for number in range(CUBES)]
        self.load(self.tables)
        self.queries.cubes = self.cubes

    def all(self):
        first, numbers = self.options.seed, range(self.options.start, self.options.start + self.options.count)
        start = time.monotonic()
        for number in numbers:
            seed = f"{first}.{number}"
            if number % PER_TABLES == 0 or number == self.options.start:
                self.prepare(f"{first}.{number - number % PER_TABLES}")
            self.queries.rng.seed(seed)
            self.one(seed, self.queries.whole())
            if (number + 1 - self.options.start) % 1000 == 0:
                print(f"{number + 1 - self.options.start} queries, {time.monotonic() - start:.0f} s: {dict(self.counts)}", flush=True)
            if self.failures >= self.options.most:
                break
        self.report(number + 1 - self.options.start, time.monotonic() - start)

    def one(self, seed, query):
        """Asks a query in two places, and sometimes once more with other constants, which takes the plan of the first."""
        rng = random.Random(seed)
        places = rng.sample(self.places, 2)
        fine = self.compare(seed, query, places)
        if fine and rng.random() < 0.2:
            for literal in below(query):
                if isinstance(literal, Literal):
                    literal.again()
            self.compare(seed + " again", query, places)

    def compare(self, seed, query, places):
        sql = write(query)
        right = self.postgres.ask(sql)
        for name, nyala in places:
            found = nyala.ask(sql)
            kind = outcome(right, found, query.ordered())
            self.counts[kind] += 1
            if kind.startswith("error"):
                self.count_error(kind, right.error or found.error, sql)
            # Of one internal error the first query is shown, and all are counted.
            if kind == "different" or kind == "fault" and self.count_error(kind, found.error, sql):
                self.fail(seed, query, kind, name, nyala)
            if kind in ("different", "fault"):
                return False
        return True

    def count_error(self, kind, error, sql):
        """Counts an error by its message, and tells whether it is the first one."""
        message = re.sub(r"\d+", "#", re.sub(r"[`'\"][^`'\"]*[`'\"]", "…", error[1]))[:110]
        line = f"{kind}: {error[0]} {message}"
        self.errors[line] += 1
        if len(sql) < len(self.examples.get(line, (sql + " ", ""))[0]):
            self.examples[line] = (sql, error[1])
        return self.errors[line] == 1

    def fail(self, seed, query, kind, name, nyala):
        self.failures += 1
        sql = write(query)
        right = self.postgres.ask(sql)
        print(f"\n=== {kind}, seed {seed}, {name}", flush=True)
        # Some answers are wrong now and then only: those are asked for more often.
        again = [outcome(right, nyala.ask(sql), query.ordered()) == kind for _ in range(40)]
        print(f"  {sum(again)} of 40 times when it is asked again\n  first {sql}", flush=True)
        if not any(again):
            return
        times = 1 if all(again) else 40 * 3 // sum(again)
        only_order = kind == "different" and all(right.same(nyala.ask(sql), False) for _ in range(times))

        def differs(text):
            if only_order and not query.ordered():
                return False
            right = self.postgres.ask(text)
            return not right.error and any(outcome(right, nyala.ask(text), only_order) == kind for _ in range(times))

        smaller_query(query, differs, self.options.shrink)
        sql = write(query)
        used = [table for table in self.tables if re.search(rf"\b{table.name}\b", sql)]

        def differs_with(tables):
            self.load(tables)
            return differs(sql)

        shrunk = smaller_tables(used, differs_with, self.options.shrink // 2)
        self.load(shrunk)
        right = self.postgres.ask(sql)
        found = next((found for found in (nyala.ask(sql) for _ in range(times)) if outcome(right, found, only_order) == kind), right)
        for table in shrunk:
            print(f"  {table.create()}; {table.insert() or ''}")
        print(f"  {sql}\n  PostgreSQL: {right.show()}\n  Nyala:      {found.show()}", flush=True)
        self.load(self.tables)

    def report(self, number, seconds):
        print(f"\n{number} queries, {seconds:.0f} s: {dict(self.counts)}")
        if self.options.cubes:
            self.drop_cubes()
            print(f"{self.hits} answers of cuboids")
        for message, count in self.errors.most_common():
            print(f"{count:6} {message}")
            if self.options.examples and message in self.examples:
                print(f"       {self.examples[message][1]}\n       {self.examples[message][0]}")
        wrong = self.counts["different"] + self.counts["fault"]
        print(f"{self.failures} differences shown of {wrong}")
        sys.exit(1 if wrong else 0)


def place_name(schema, rows, threads):
    return schema + (f", {rows} rows a batch, {threads} partitions" if rows else "")


def settings(schema, rows, threads):
    sizes = [f"SET datafusion.execution.batch_size = {rows}", f"SET datafusion.execution.target_partitions = {threads}"] if rows else []
    return [f"SET search_path = {schema}", *(["SET nyala.check_files = on"] if schema.startswith("cubed") else []), *sizes]


def outcome(right, found, ordered):
    if found.fault():
        return "fault"
    if right.error:
        return "error of both" if found.error else "error of postgres"
    if found.error:
        return "error of nyala"
    return "equal" if right.same(found, ordered) else "different"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--nyala", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="the first query of the seed: what stands after the point")
    parser.add_argument("--off", type=lambda text: set(filter(None, text.split(","))), default=set(), help="parts of the grammar not to ask")
    parser.add_argument("--most", type=int, default=20, help="ends after so many differences")
    parser.add_argument("--shrink", type=int, default=400, help="questions to make one difference smaller")
    parser.add_argument("--cubes", action="store_true", help="tables with cubes over them, and queries that these can answer")
    parser.add_argument("--examples", action="store_true", help="a query for each error of Nyala alone")
    options = parser.parse_args()
    server = Server(options.nyala)
    for schema in ("live", "files", "cubed_live", "cubed_files"):
        server.do(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    Run(options).all()


main()
