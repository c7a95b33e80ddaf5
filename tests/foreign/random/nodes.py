"""The tree of a query: it writes itself as SQL, and tells how it can be made smaller.

A tree need not stay valid when it shrinks: what both servers do not answer is not kept. Two things must hold by construction, since no
server would complain: a list that orders all rows loses only keys of columns that are gone, and LIMIT goes before its ORDER BY.
"""


class Node:
    """Texts and nodes one after the other. `type` is the type of an expression; None is for what has no value."""

    kind = "text"
    # A term that is grouped or ordered by: a constant would be a position there.
    kept = False

    def __init__(self, *parts, kind=None, type=None):
        self.parts = list(parts)
        self.type = type
        self.instead = None
        if kind:
            self.kind = kind

    def children(self):
        return [part for part in self.parts if isinstance(part, Node)]

    def sql(self):
        if self.instead is not None:
            return self.instead if isinstance(self.instead, str) else self.instead.sql()
        return self.text()

    def text(self):
        return "".join(part if isinstance(part, str) else part.sql() for part in self.parts)

    def here(self):
        """The nodes below that are still written."""
        if self.instead is not None:
            return [] if isinstance(self.instead, str) else [self.instead]
        return self.children()

    def steps(self):
        """(apply, undo) of each way to make this node smaller."""
        if self.kind == "expression" and not self.kept:
            for text in plainest(self.type):
                if self.sql() != text:
                    yield put(self, "instead", text)
        if self.kind in ("expression", "query", "relation"):
            for node in below(self):
                if node.kind == self.kind and node.type == self.type:
                    yield put(self, "instead", node)


class Maybe(Node):
    """What can be left out as a whole. `needs` is another Maybe that must be there as long as this one is."""

    def __init__(self, *parts, needs=None):
        super().__init__(*parts)
        self.gone = False
        self.needed_by = []
        if needs is not None:
            needs.needed_by.append(self)

    def text(self):
        return "" if self.gone else super().text()

    def here(self):
        return [] if self.gone else super().here()

    def steps(self):
        if not self.gone and all(other.gone for other in self.needed_by):
            yield put(self, "gone", True)


class Many(Node):
    """A list, of which items can be left out while `least` remain."""

    def __init__(self, items, before="", between=", ", after="", least=1, fixed=False):
        super().__init__()
        self.items, self.before, self.between, self.after = list(items), before, between, after
        self.least, self.fixed = least, fixed

    def children(self):
        return self.items

    def text(self):
        texts = [text for text in (item.sql() for item in self.items) if text]
        return self.before + self.between.join(texts) + self.after if texts else ""

    def steps(self):
        if not self.fixed and len(self.items) > self.least:
            for item in self.items:
                yield without(self, item)


class Key(Node):
    """A key of ORDER BY: an item of the same SELECT by its place, its name or its expression. It goes with its item."""

    def __init__(self, item, items, form, after):
        super().__init__()
        self.item, self.items, self.form, self.after = item, items, form, after

    def text(self):
        if self.item not in self.items.items:
            return ""
        written = {"name": self.item.name, "expression": self.item.parts[0].sql()}.get(self.form)
        return (written or str(self.items.items.index(self.item) + 1)) + self.after


class Alive(Node):
    """A column that makes an order total. It goes when its table is no longer part of the query."""

    written = set()

    def __init__(self, text, relation, after=""):
        super().__init__(text + after)
        self.relation, self.whole = relation, text

    def text(self):
        return super().text() if not Alive.written or id(self.relation) in Alive.written else ""


class Items(Many):
    """A SELECT list. In a branch of UNION an item goes from all branches at once."""

    def __init__(self, items):
        super().__init__(items)
        self.beside = [self]

    def steps(self):
        if len(self.items) > 1 and self.beside[0] is self and all(len(one.items) == len(self.items) for one in self.beside):
            for place in reversed(range(len(self.items))):
                yield cut(self.beside, place, len(self.items))


def write(root):
    """The SQL of a tree."""
    Alive.written = {id(node) for node in below(root, itself=True)}
    try:
        return " ".join(root.sql().split())
    finally:
        Alive.written = set()


def below(node, itself=False):
    """All nodes that are written below one, each once, the outer ones first."""
    seen, found, queue = {id(node)}, [node] if itself else [], [node]
    while queue:
        for child in queue.pop(0).here():
            if id(child) not in seen:
                seen.add(id(child))
                found.append(child)
                queue.append(child)
    return found


def put(node, name, value):
    old = getattr(node, name)
    return lambda: setattr(node, name, value), lambda: setattr(node, name, old)


def without(many, item):
    def change(items):
        if item in items and len(items) > many.least:
            items.remove(item)

    return changed([many], change)


def cut(lists, place, length):
    def change(items):
        if len(items) == length and length > 1:
            del items[place]

    return changed(lists, change)


def changed(lists, change):
    """Of steps that were planned together, some may come too late: those change nothing."""
    old = []

    def apply():
        old[:] = [list(one.items) for one in lists]
        for one in lists:
            change(one.items)

    def undo():
        for one, items in zip(lists, old):
            one.items[:] = items

    return apply, undo


PLAIN = {"int": "1", "big": "1::bigint", "num": "1.5", "dbl": "1::float8", "text": "'a'::text", "date": "DATE '2024-01-01'"}
PLAIN |= {"ts": "TIMESTAMP '2024-01-01'", "bool": "true", "interval": "INTERVAL '1 day'"}


def plainest(type):
    return [PLAIN[type]] + (["false"] if type == "bool" else []) if type in PLAIN else []
