"""Behind a real nginx: with the configuration of docs/http.md, and with one that says nothing of a proxy."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
import trustme

from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import SOURCES, World

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
DOCS = Path(__file__).parents[2] / "docs" / "http.md"
SEARCH = "/api/v1/knowledge/search"
NAME = "knowledge.example.com"
PLAIN = "server { listen LISTEN; location / { proxy_pass UPSTREAM; } }"
pytestmark = pytest.mark.skipif(
    NGINX is None and not os.environ.get("CI"),  # which installs it: there its absence fails the tests
    reason="nginx is not installed: apt-get install nginx-light",
)

Start = Callable[[str, str], int]


@pytest.fixture
def start_nginx(tmp_path: Path) -> Iterator[Start]:
    """Starts nginx with a server block in front of a URL; gives its port."""
    started: list[subprocess.Popen[bytes]] = []

    def start(block: str, upstream: str) -> int:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        block = block.replace("LISTEN", f"127.0.0.1:{port}").replace("UPSTREAM", upstream)
        folders = " ".join(
            f"{name}_temp_path {tmp_path}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = tmp_path / "nginx.conf"
        config.write_text(
            f"daemon off; master_process off; pid {tmp_path}/pid; error_log stderr; events {{}}\n"
            f"http {{ access_log off; {folders}\n{block}\n}}\n"
        )
        assert NGINX
        started.append(subprocess.Popen([NGINX, "-e", "stderr", "-c", str(config)]))
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return port
            except OSError:
                assert started[-1].poll() is None and time.monotonic() < deadline, "nginx did not start"
                time.sleep(0.02)

    yield start
    for process in started:
        process.terminate()
        process.wait(60)


def test_a_proxy_with_default_settings_passes_on_nothing_but_public_content(
    world: World, start_nginx: Start
) -> None:
    public = {source.id for source in world.sources_of("public")}
    with Running(world.settings, config=world.config, metrics=True) as server:
        port = start_nginx(PLAIN, server.url)
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            for source in SOURCES:
                answer = client.post(SEARCH, json={"query": source.canary, "limit": 50})
                assert answer.status_code == 200
                assert {each["metadata"]["source"] for each in answer.json()["results"]} <= public
            assert client.get("/metrics").status_code == 403
            assert client.get("/api/v1/knowledge/sources").status_code == 403


def test_the_documented_proxy_serves_whoever_has_a_token(
    world: World, start_nginx: Start, tmp_path: Path
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert(NAME)
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "knowledge.pem"))
    found = re.search(r"```nginx\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found
    block = found[1].replace("443 ssl", "LISTEN ssl").replace("http://127.0.0.1:8321", "UPSTREAM")
    block = re.sub(r"/etc/ssl/knowledge\.(pem|key)", f"{tmp_path}/knowledge.pem", block)
    with Running(world.settings, config=world.config, anonymous="off", allowed_hosts=(NAME,)) as server:
        port = start_nginx(block, server.url)
        trusted = ssl.create_default_context()
        authority.configure_trust(trusted)
        with httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=trusted, trust_env=False) as client:
            asked = {"json": {"query": "canaryacmedocs"}, "headers": {"Host": NAME}}
            asked["extensions"] = {"sni_hostname": NAME}
            assert client.post(SEARCH, **asked).status_code == 401
            asked["headers"]["Authorization"] = f"Bearer {world.tokens['acme']}"
            answer = client.post(SEARCH, **asked)
            assert answer.status_code == 200 and "acme-docs" in answer.text
