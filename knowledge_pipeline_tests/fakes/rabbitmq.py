"""A real RabbitMQ, configured as in deploy/celery, on free ports, beside any that the machine runs.

with RabbitServer() as server:
    os.environ["KNOWLEDGE_CELERY_BROKER"] = server.url
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

CONFIGURATION = Path(__file__).parent.parent.parent / "deploy" / "celery" / "rabbitmq.conf"
_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # Debian's; the one on PATH changes the user


class NotInstalled(Exception):
    """There is no RabbitMQ on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "no RabbitMQ is installed: there is no rabbitmq-server. "
            "Install it, with `apt-get install rabbitmq-server` for one"
        )


class RabbitServer:
    """A context manager: runs while entered, and leaves nothing behind."""

    def __init__(self) -> None:
        """Choose ports.

        Raises:
            NotInstalled: there is no `rabbitmq-server`.
        """
        found = str(_PROGRAM) if _PROGRAM.exists() else shutil.which("rabbitmq-server")
        if found is None:
            raise NotInstalled
        self._program = found
        self.port, distribution, names = _free_ports(3)
        self._folder = Path(tempfile.mkdtemp(prefix="knowledge-rabbitmq-"))
        self._environment = {
            **os.environ,
            "HOME": str(self._folder),  # of the secret by which Erlang's processes know each other
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "tables"),
            "RABBITMQ_LOG_BASE": str(self._folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(CONFIGURATION),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "none"),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What `KNOWLEDGE_CELERY_BROKER` is set to; the user is the one that a fresh server knows."""
        return f"pyamqp://guest:guest@127.0.0.1:{self.port}//"

    def __enter__(self) -> RabbitServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        subprocess.run(["epmd", "-kill"], env=self._environment, capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start on what is in the folder, and wait until it answers."""
        (self._folder / "plugins").write_text("[].\n")
        log_path = self._folder / "printed"
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program], env=self._environment, cwd=self._folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 240
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"RabbitMQ did not start: {log_path.read_text()[-2000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        """End it, as a service manager does."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def _answers(self) -> bool:
        """Whether it speaks AMQP: it closes what greets it with another protocol by its own greeting."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2) as asked:
            asked.settimeout(2)
            asked.sendall(b"AMQP\x00\x00\x00\x00")
            return asked.recv(4) == b"AMQP"
        return False


def _free_ports(count: int) -> list[int]:
    taken = [socket.socket() for _ in range(count)]
    try:
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
    finally:
        for each in taken:
            each.close()
