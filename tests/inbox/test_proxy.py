"""The inbox behind nginx and Caddy, with the blocks that the page on deployment prints; and its systemd units.

Where a program is missing its tests are skipped; in CI they fail.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from markdown_it import MarkdownIt
from playwright.sync_api import Browser, expect

from assentry.cli import main
from assentry.store import SQLiteStore
from tests.cli.test_cli import ended, process
from tests.inbox.desk import chromium, until
from tests.inbox.office import PASSWORD, ask_order, ask_refund, hire
from tests.inbox.stores import cheap_hashes

T = TypeVar("T")

__all__ = ["cheap_hashes", "chromium"]  # fixtures

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "deployment.md"
PREFIX = "/approvals"
PATIENCE = 60.0


def printed(title: str) -> str:
    """Return the block of the page with this title."""
    fences = [token for token in MarkdownIt().parse(PAGE.read_text("utf-8")) if token.type == "fence"]
    [found] = [fence.content for fence in fences if f'title="{title}"' in fence.info]
    return found


def needed(program: str) -> str:
    """Return the path of a program; skip the test where it is missing."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        if os.environ.get("CI"):
            raise RuntimeError(f"There is no {program}: apt-get install {program}.")
        pytest.skip(f"no {program}: apt-get install {program}")
    return found


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


def until_it_greets(port: int, started: subprocess.Popen[bytes]) -> None:
    """Wait until a proxy takes a TLS connection: one that makes its own certificate listens before it has it."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    end = time.monotonic() + PATIENCE
    while True:
        assert started.poll() is None, "it has ended"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:
                trusting.wrap_socket(plain, server_hostname="localhost").close()
            return
        except OSError as error:  # an `ssl.SSLError` too
            if time.monotonic() > end:
                raise TimeoutError("it takes no TLS connection") from error
            threading.Event().wait(0.02)  # another process: nothing here hears of it


def do(work: Coroutine[Any, Any, T]) -> T:
    """Run something on a store, in a thread of its own: a browser's driver may have the loop of this one."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, work).result()


async def with_store(file: Path, work: Callable[[SQLiteStore], Coroutine[Any, Any, T]]) -> T:
    async with SQLiteStore(file) as store:
        return await work(store)


def make_certificate(folder: Path) -> None:
    """Write a certificate for this machine, as the printed block names its files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(30))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "fullchain.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    (folder / "privkey.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


@pytest.fixture
def file(tmp_path: Path, cheap_hashes: None) -> Path:
    """The file of a store with people who may sign in."""
    do(with_store(tmp_path / "inbox.db", hire))
    return tmp_path / "inbox.db"


@pytest.fixture
def inbox(file: Path) -> Iterator[Callable[..., int]]:
    """Start `assentry serve`, and return its port."""
    begun = []

    def start(*options: str) -> int:
        words = ("serve", "--store", str(file), "--port", "0", "--behind-proxy", "127.0.0.1", *options)
        started = process("-m", "assentry.cli", *words, cwd=file.parent)
        begun.append(started)
        assert started.stderr is not None
        line = started.stderr.readline()
        assert "The inbox is at" in line, line
        return int(re.search(r":(\d+)", line.split("at ")[1])[1])  # type: ignore[index]

    yield start
    for started in begun:
        started.send_signal(signal.SIGTERM)
        assert ended(started)[0] == 0


# -- proxies -----------------------------------------------------------------------------------------------------------

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi;
{printed}
}}
"""
"""A whole configuration around a printed block."""
CADDY = """
{
    admin off
    skip_install_trust
    auto_https disable_redirects
}
"""

Front = Callable[[int, str], int]


@pytest.fixture
def begun() -> Iterator[list[subprocess.Popen[bytes]]]:
    """The proxies that a test has started; they are ended after it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for each in started:
        each.terminate()
        each.wait(PATIENCE)


@pytest.fixture
def nginx(tmp_path: Path, begun: list[subprocess.Popen[bytes]]) -> Front:
    """Start nginx with a configuration, before the inbox at a port; return its own port."""
    program = needed("nginx")
    make_certificate(tmp_path)

    def start(inner: int, block: str) -> int:
        port = free_port()
        block = block.replace("/etc/ssl/approvals", str(tmp_path)).replace("127.0.0.1:8000", f"127.0.0.1:{inner}")
        block = block.replace("listen 443", f"listen 127.0.0.1:{port}")
        user = "user root;" if os.getuid() == 0 else ""
        (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path, user=user, printed=block))
        begun.append(subprocess.Popen([program, "-e", "stderr", "-c", tmp_path / "nginx.conf"]))
        until_it_greets(port, begun[-1])
        return port

    return start


@pytest.fixture
def caddy(tmp_path: Path, begun: list[subprocess.Popen[bytes]]) -> Front:
    """Start Caddy with a configuration; it makes its own certificate for this machine."""
    program = needed("caddy")

    def start(inner: int, block: str) -> int:
        port = free_port()
        block = block.replace("approvals.example.com", f"https://localhost:{port}")
        block = block.replace("127.0.0.1:8000", f"127.0.0.1:{inner}")
        (tmp_path / "Caddyfile").write_text(CADDY + block)
        command = [program, "run", "--config", tmp_path / "Caddyfile", "--adapter", "caddyfile"]
        begun.append(
            subprocess.Popen(command, env=os.environ | {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)})
        )
        until_it_greets(port, begun[-1])
        return port

    return start


def use(url: str, file: Path, host: str | None = None) -> None:
    """Sign in, decide, and hear of a new question, as an older browser does that says no more than `Origin`."""
    question = do(with_store(file, ask_order))
    origin = f"https://{host}" if host else "/".join(url.split("/")[:3])
    headers = {"Host": host} if host else {}
    with httpx.Client(verify=False, headers=headers, timeout=PATIENCE, trust_env=False) as browser:

        def go(path: str, **form: str) -> httpx.Response:
            """Follow redirects as a browser does; to another name they lead to the same proxy."""
            address, method = httpx.URL(url).join(path), "POST" if form else "GET"
            sent: dict[str, Any] = {"data": form, "headers": {"Origin": origin}} if form else {}
            for _ in range(6):
                answer = browser.request(method, address, **sent)
                if not answer.is_redirect:
                    return answer
                method, sent = "GET", {}
                address = httpx.URL(url).join(httpx.URL(answer.headers["location"]).raw_path.decode())
            raise AssertionError(f"{path} leads nowhere: {address}")

        base = httpx.URL(url).path.rstrip("/")
        assert "Sign in" in go(base or "/").text
        assert "Sign out" in go(f"{base}/sign-in", name="ann", password=PASSWORD, next=f"{base}/runs").text
        assert [each.secure for each in browser.cookies.jar] == [True]
        page = go(f"{base}/questions/{question.id}").text
        form = {name: re.search(f'name="{name}" value="([^"]+)"', page)[1] for name in ("csrf", "digest")}  # type: ignore[index]
        assert f'"{base}/static/inbox.css"' in page
        assert question.id in go(f"{base}/questions/{question.id}/decision", type="approve", **form).text
        assert do(with_store(file, lambda store: store.question(question.id))).by == "ann"
        with browser.stream("GET", f"{url.rstrip('/')}/api/events") as events:
            assert events.status_code == 200
            lines = events.iter_lines()
            next(lines)
            new = do(with_store(file, ask_refund))
            assert any(new.id in line for line in lines)  # a proxy that buffers would keep it until the stream ends


def test_nginx_as_printed(nginx: Front, inbox: Callable[..., int], file: Path) -> None:
    port = nginx(inbox(), printed("/etc/nginx/conf.d/approvals.conf"))
    use(f"https://localhost:{port}", file)
    use(f"https://localhost:{port}", file, host="approvals.example.com")  # as on port 443


@pytest.mark.parametrize("taken_off", [False, True])
def test_nginx_under_a_prefix(nginx: Front, inbox: Callable[..., int], file: Path, taken_off: bool) -> None:
    block = under_prefix()
    if taken_off:
        block = block.replace("127.0.0.1:8000;", "127.0.0.1:8000/;")
    use(f"https://localhost:{nginx(inbox('--root-path', PREFIX), block)}{PREFIX}", file)


def under_prefix() -> str:
    """Return the printed server with the printed location under a prefix."""
    whole = printed("/etc/nginx/conf.d/approvals.conf")
    return re.sub(r"    location / \{.*?\n    \}\n", lambda _: printed("approvals-prefix.conf"), whole, flags=re.DOTALL)


def test_caddy_as_printed(caddy: Front, inbox: Callable[..., int], file: Path) -> None:
    use(f"https://localhost:{caddy(inbox(), printed('/etc/caddy/Caddyfile'))}", file)


def test_caddy_that_takes_a_prefix_off(caddy: Front, inbox: Callable[..., int], file: Path) -> None:
    block = printed("/etc/caddy/Caddyfile").replace("reverse_proxy", f"handle_path {PREFIX}* {{\n reverse_proxy") + "}"
    use(f"https://localhost:{caddy(inbox('--root-path', PREFIX), block)}{PREFIX}", file)


def test_a_browser_signs_in_even_where_the_proxy_leaves_the_port_out(
    chromium: Browser, nginx: Front, inbox: Callable[..., int], file: Path
) -> None:
    port = nginx(inbox("--root-path", PREFIX), under_prefix().replace("$http_host", "$host"))
    page = chromium.new_context(ignore_https_errors=True, reduced_motion="reduce").new_page()
    page.goto(f"https://localhost:{port}{PREFIX}")
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/approvals/questions")
    expect(page.locator("#live")).to_be_visible()
    question = do(with_store(file, ask_refund))
    page.locator(".row").click()
    page.get_by_role("link", name="Reject").click()
    page.get_by_label("Your reason").fill("Too much.")
    page.get_by_role("button", name="Reject").click()
    until(page, lambda: do(with_store(file, lambda store: store.question(question.id))).by == "ann")
    page.context.close()


@pytest.mark.parametrize("prefix", ["/api", "questions/", "/static/x"])
def test_a_prefix_that_is_a_path_of_the_inbox_is_refused(
    prefix: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["serve", "--store", str(file), "--port", "0", "--root-path", prefix]
    with ThreadPoolExecutor(1) as apart:  # where a browser's driver has no loop
        assert apart.submit(main, words).result() == 1
    assert "serve it under another prefix" in capsys.readouterr().err


@pytest.mark.parametrize("prefix", ["/a b", "https://example.com/x", "/a//b", "/a?b"])
def test_a_prefix_is_a_path(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--store", "none.db", "--root-path", prefix])
    assert "is no prefix" in capsys.readouterr().err
