"""psycopg over TLS with passwords: what works, and how what does not work is told."""

import psycopg
from psycopg import errors

failed = 0


def check(name, work):
    global failed
    try:
        work()
        print("ok   ", name)
    except Exception as error:  # Every failure is told, whatever it is.
        failed += 1
        print("FAIL ", name, type(error).__name__, error)


def connect(user="ann", password="secret", **more):
    return psycopg.connect(user=user, password=password, **{"sslmode": "verify-full", **more})


def a_login():
    with connect() as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT current_user").fetchone() == ("ann",)
        assert connection.execute("SELECT count(*) FROM dates WHERE d_year > %s", (1990,)).fetchone() == (2557,)


def a_wrong_password():
    for more in ({"password": "wrong"}, {"user": "mallory"}):
        try:
            connect(**more)
        except psycopg.OperationalError as error:
            assert "password authentication failed" in str(error), error
        else:
            raise AssertionError("let in")


def no_encryption():
    try:
        connect(sslmode="disable")
    except psycopg.OperationalError as error:
        assert "encrypted" in str(error), error
    else:
        raise AssertionError("let in")


def no_grant():
    with connect() as connection:
        try:
            connection.execute("SELECT * FROM customer")
        except errors.InsufficientPrivilege as error:
            assert "GRANT SELECT ON" in error.diag.message_hint, error.diag.message_hint
        else:
            raise AssertionError("answered")


def a_verifier_from_the_client():
    # What psql's \password does: the password never leaves the client.
    with connect(autocommit=True) as connection:
        verifier = connection.pgconn.encrypt_password(b"new", b"ann", b"scram-sha-256").decode()
        assert verifier.startswith("SCRAM-SHA-256$"), verifier
        connection.execute(f"ALTER USER ann PASSWORD '{verifier}'")
    connect(password="new").close()


check("a login", a_login)
check("a wrong password", a_wrong_password)
check("no encryption", no_encryption)
check("no grant", no_grant)
check("a verifier from the client", a_verifier_from_the_client)
raise SystemExit(1 if failed else 0)
