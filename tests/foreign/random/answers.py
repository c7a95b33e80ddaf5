"""Connections, and answers as they are compared."""

from decimal import Decimal, InvalidOperation

import psycopg
from psycopg.pq import ExecStatus

NUMBERS = {20, 21, 23, 26, 700, 701, 1700}
# Sums of floating-point numbers and quotients may differ in their last digits.
DIGITS = 12


class Broken(Exception):
    """The server went away or does not answer."""


class Server:
    """A connection that sends each text as it is written, and is made anew when it breaks."""

    def __init__(self, address, settings=()):
        self.address, self.settings = address, list(settings)
        self.connection = None

    def ask(self, sql):
        """Rows of comparable texts, or the error as (SQLSTATE, message)."""
        if self.connection is None or self.connection.closed:
            self.connection = psycopg.connect(self.address, autocommit=True)
            for setting in self.settings:
                self.connection.pgconn.exec_(setting.encode())
        try:
            result = self.connection.pgconn.exec_(sql.encode())
        except psycopg.OperationalError as error:
            self.connection.close()
            return Answer(error=("08006", str(error)))
        if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            return Answer(rows=rows(result))
        state = (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"08006").decode()
        if state == "08006":
            self.connection.close()
        return Answer(error=(state, (result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b"connection lost").decode()))

    def do(self, sql):
        answer = self.ask(sql)
        if answer.error:
            raise Broken(f"{sql[:200]}: {answer.error}")


class Answer:
    def __init__(self, rows=None, error=None):
        self.rows, self.error = rows, error

    def same(self, other, ordered):
        return self.rows == other.rows if ordered else sorted(self.rows) == sorted(other.rows)

    def fault(self):
        """Whether the server is at fault, whatever it was asked."""
        return self.error is not None and (self.error[0] in ("XX000", "08006") or "fault of the server" in self.error[1])

    def show(self, most=12):
        if self.error:
            return f"error {self.error[0]}: {self.error[1]}"
        lines = ["|".join(row) for row in self.rows[:most]]
        return f"{len(self.rows)} rows" + "".join(f"\n    {line}" for line in lines) + ("\n    …" if len(self.rows) > most else "")


def rows(result):
    numbers = [result.ftype(place) in NUMBERS for place in range(result.nfields)]
    return [tuple(text(result.get_value(row, place), number) for place, number in enumerate(numbers)) for row in range(result.ntuples)]


def text(value, number):
    if value is None:
        return "NULL"
    value = value.decode()
    return plain(value) if number else repr(value) if value in ("", "NULL") else value


def plain(value):
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    if not number.is_finite():
        return value
    if number == 0:
        return "0"
    number = round(number, DIGITS - 1 - number.adjusted())
    return format(number.normalize(), "f")
