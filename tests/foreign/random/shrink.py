"""Makes a query and its tables smaller while the answers differ."""

import copy

from nodes import below, write


def smaller_query(query, differs, most):
    """Tries each step anywhere in the tree, the outer nodes first, until none helps or `most` questions were asked."""
    asked, before = 0, None
    while asked < most and before != write(query):
        before = write(query)
        for node in below(query, itself=True):
            for apply, undo in list(node.steps()):
                length = len(write(query))
                apply()
                if len(write(query)) >= length:
                    undo()
                    continue
                asked += 1
                if not differs(write(query)):
                    undo()
                if asked >= most:
                    return


def smaller_tables(tables, differs, most):
    """The same of rows: halves, quarters and single ones of each table."""
    tables = [copy.copy(table) for table in tables]
    asked = 0
    for table in tables:
        size = len(table.rows)
        while size and asked < most:
            place = 0
            while place < len(table.rows) and asked < most:
                rows = table.rows
                table.rows = rows[:place] + rows[place + size :]
                asked += 1
                if not differs(tables):
                    table.rows = rows
                    place += size
            size //= 2
    return tables
