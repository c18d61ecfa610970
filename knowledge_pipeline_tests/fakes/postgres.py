"""A real PostgreSQL on a free port with its files in a folder of its own, beside any that the machine runs.

    with PostgresServer() as server:
        with server.database() as variables:
            os.environ.update(variables)  # what deploy/postgres/dagster.yaml reads

It trades safety for speed: what a test writes need not outlive the machine (no fsync), and Dagster
opens a connection for every statement, so that passwords are md5 (0.4 ms of CPU, 3.5 ms with scram).
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

USER = "dagster"
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_UNPRIVILEGED = ("postgres", "nobody")


class NotInstalled(Exception):
    """There is no PostgreSQL server on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "no PostgreSQL is installed: there is no initdb on PATH or under /usr/lib/postgresql. "
            "Install it, with `apt-get install postgresql` for one"
        )


class PostgresServer:
    """A context manager: runs while entered, and leaves nothing behind."""

    def __init__(self, *settings: str, programs: Path | None = None) -> None:
        """Take settings of postgresql.conf, such as `fsync=on`, over those that make tests quick.

        Args:
            settings: of postgresql.conf.
            programs: the folder of `initdb`; by default that of the newest server installed.

        Raises:
            NotInstalled: there is no `initdb`.
        """
        self._programs = programs or _programs()
        self._settings = (*QUICK, *settings)
        self._password = secrets.token_hex(8)
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    def __enter__(self) -> PostgresServer:
        self._folder = Path(tempfile.mkdtemp(prefix="knowledge-postgres-"))
        password = self._folder / "password"
        password.write_text(self._password)
        if (user := _user()) is not None:
            shutil.chown(self._folder, user)
            shutil.chown(password, user)
        options = ["-U", USER, "--pwfile", password, "--auth=md5", "--no-sync", "--locale=C.UTF-8"]
        command = [self._programs / "initdb", "-D", self._folder / "data", *options]
        subprocess.run(command, check=True, capture_output=True, cwd="/", user=user)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start on what is in the folder, and wait until it answers."""
        settings = ["listen_addresses=127.0.0.1", f"unix_socket_directories={self._folder}", *self._settings]
        options = [word for setting in settings for word in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._folder / "data", "-p", str(self.port), *options],
                stderr=log,
                cwd="/",
                user=_user(),
            )
        ready = [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + 120
        while subprocess.run(ready, check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT closes every connection, SIGQUIT stops as a crash would."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(120)

    @contextmanager
    def database(self, *, like: str = "template1") -> Iterator[dict[str, str]]:
        """A copy of a database, by default of an empty one, as what deploy/postgres/dagster.yaml reads."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute(f"create database {name} template {like}")
        yield {
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "DAGSTER_POSTGRES_PORT": str(self.port),
            "DAGSTER_POSTGRES_USER": USER,
            "DAGSTER_POSTGRES_PASSWORD": self._password,
            "DAGSTER_POSTGRES_DB": name,
        }
        self.execute(f"drop database {name} with (force)")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement in the database `postgres`; rows, if it gives any."""
        import psycopg2

        connection = psycopg2.connect(
            host="127.0.0.1", port=self.port, user=USER, password=self._password, dbname="postgres"
        )
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()


def _programs() -> Path:
    """The folder of the newest server installed."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if not versions:
        raise NotInstalled
    return versions[-1].parent


def _version(initdb: Path) -> int:
    return int(initdb.parent.parent.name)


def _user() -> str | None:
    """Whom to run it as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _UNPRIVILEGED if name in known)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
