"""Passwords, tokens and certificates."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import nyala
from nyala.server import find_binary


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nyala.Server]:
    """A server that asks for passwords: `ann` has `s:ecret/ü`."""
    data_dir = tmp_path_factory.mktemp("guarded")
    statement = "CREATE USER ann SUPERUSER PASSWORD 's:ecret/ü'"
    subprocess.run(
        [find_binary(), "sql", "--data-dir", str(data_dir), "-c", statement], env={}, check=True, capture_output=True
    )
    with nyala.Server(data_dir, server={"authentication": "password"}) as server:
        yield server


def test_a_password_is_exchanged_for_a_token(guarded: nyala.Server) -> None:
    with nyala.connect(guarded, user="ann", password="s:ecret/ü") as connection:
        assert (
            connection.execute("SELECT \"user\" FROM system.queries WHERE query LIKE '%system.queries%'").scalar()
            == "ann"
        )
        assert connection.door._login.header()["Authorization"].startswith("Bearer ")


def test_a_password_in_the_url(guarded: nyala.Server) -> None:
    url = guarded.url.replace("://", "://ann:s%3Aecret%2F%C3%BC@")
    with nyala.connect(url) as connection:
        assert (
            connection.execute("SELECT \"user\" FROM system.queries WHERE query LIKE '%system.queries%'").scalar()
            == "ann"
        )


def test_a_token(guarded: nyala.Server) -> None:
    with nyala.connect(guarded, user="ann", password="s:ecret/ü") as connection:
        connection.execute("SELECT 1")
        token = connection.door._login.header()["Authorization"].removeprefix("Bearer ")
    with nyala.connect(guarded, token=token) as connection:
        assert (
            connection.execute("SELECT \"user\" FROM system.queries WHERE query LIKE '%system.queries%'").scalar()
            == "ann"
        )


def test_a_token_that_ended_is_renewed(guarded: nyala.Server) -> None:
    with nyala.connect(guarded, user="ann", password="s:ecret/ü") as connection:
        connection.execute("SELECT 1")
        connection.door._login.keep_token("worthless", 3600)
        assert connection.execute("SELECT 1").scalar() == 1


def test_a_load_that_cannot_be_repeated_does_not_rely_on_a_token(guarded: nyala.Server) -> None:
    with nyala.connect(guarded, user="ann", password="s:ecret/ü") as connection:
        connection.execute("CREATE LIVE TABLE loaded (id INT PRIMARY KEY)")
        connection.door._login.keep_token("worthless", 3600)
        assert connection.load("loaded", ({"id": n} for n in range(3))).rows == 3


@pytest.mark.parametrize(
    "proof",
    [{}, {"user": "ann", "password": "geheim"}, {"user": "bob", "password": "s:ecret/ü"}, {"token": "worthless"}],
)
def test_who_proves_nothing_is_refused(guarded: nyala.Server, proof: dict[str, str]) -> None:
    with nyala.connect(guarded, **proof) as connection, pytest.raises(nyala.Error) as caught:  # type: ignore[arg-type]
        connection.execute("SELECT 1")
    assert (caught.value.code, caught.value.status) == ("unauthenticated", 401)
    assert not any(secret in str(caught.value) for name, secret in proof.items() if name != "user")


def test_a_password_where_nobody_asks_for_one(server: nyala.Server) -> None:
    with nyala.connect(server, user="ann", password="x") as connection:
        assert connection.execute("SELECT 1").scalar() == 1


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("postgresql://h:1/d", {}, "is no address of a server"),
        ("http://u:geheim@h:1/d", {}, "something after the port"),
        ("http://u:geh/eim@h:1", {}, "something after the port"),
        ("http://u:geheim", {}, "is no port"),
        ("http://h:1", {"user": "u"}, "a user needs a password"),
        ("http://h:1", {"user": "u", "password": "p", "token": "t"}, "not both"),
    ],
)
def test_addresses_that_make_no_sense(url: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        nyala.connect(url, **options)  # type: ignore[arg-type]
    assert "geheim" not in str(caught.value)


def test_nobody_listens() -> None:
    with (
        nyala.connect("http://127.0.0.1:19999") as connection,
        pytest.raises(nyala.Error, match="cannot connect to http") as caught,
    ):
        connection.execute("SELECT 1")
    assert caught.value.code == "unreachable"


def test_certificates_are_verified(certificate: tuple[Path, Path]) -> None:
    file, key = map(str, certificate)
    with nyala.Server(server={"tls": {"certificate": file, "key": key}}) as server:
        assert server.url.startswith("https://")
        with nyala.connect(server, ca_file=file) as connection:
            assert connection.execute("SELECT 1").scalar() == 1
            assert connection.execute("SELECT 1").scalar() == 1
        with nyala.connect(server) as connection, pytest.raises(nyala.Error, match="is not trusted") as caught:
            connection.execute("SELECT 1")
        assert "ca_file" in (caught.value.hint or "")
        with (
            nyala.connect(server.url.replace("127.0.0.1", "localhost"), ca_file=file) as connection,
            pytest.raises(nyala.Error, match="unreachable"),
        ):
            connection.execute("SELECT 1")
        with nyala.connect(server.url.replace("https", "http")) as connection, pytest.raises(nyala.Error):
            connection.execute("SELECT 1")
