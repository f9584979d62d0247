"""Downloads from a local server: interrupted, resumed, wrong, refused."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from spml.data.benchmarks import download
from spml.data.benchmarks.download import Archive, fetch
from spml.errors import InputError, SpmlError

CONTENT = bytes(range(256)) * 20_000  # 5 MB
SIZE, CHECKSUM = len(CONTENT), "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `cuts` are numbers of bytes after which it closes each of the first connections."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.cuts: list[int] = []
        self.ranges = True
        self.status = 0
        self.shift = 0
        self.requested: list[str | None] = []

    def handle_error(self, request, client_address):
        """Ignore clients that close the connection, which the tests do on purpose."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/data/set.tar?download=1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        requested = self.headers.get("Range")
        self.server.requested.append(requested)
        if self.server.status:
            self.send_error(self.server.status)
            return
        start = int(requested.removeprefix("bytes=").rstrip("-")) if requested and self.server.ranges else 0
        self.send_response(206 if requested and self.server.ranges else 200)
        if requested and self.server.ranges:
            first = start + self.server.shift
            self.send_header("Content-Range", f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}")
        body = CONTENT[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.server.cuts.pop(0) if self.server.cuts else len(body)
        self.wfile.write(body[:cut])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0.0)
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def archive(server, size=SIZE, checksum=CHECKSUM):
    return Archive(server.url, size, checksum)


def get(server, folder, **options):
    messages: list[str] = []
    path = fetch(archive(server, **options), folder, messages.append)
    return path, messages


def test_download(server, tmp_path):
    path, messages = get(server, tmp_path / "new")
    assert path == tmp_path / "new/set.tar"
    assert path.read_bytes() == CONTENT
    assert server.requested == [None]
    assert [line for line in messages if "of 5 MB" in line][-1] == "set.tar: 5 of 5 MB"
    assert [p.name for p in path.parent.iterdir()] == ["set.tar"]


def test_an_interrupted_connection_is_resumed(server, tmp_path):
    server.cuts = [1_000_000, 500_000, 0, 0]
    path, _ = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.requested == [None, "bytes=1000000-", "bytes=1500000-", "bytes=1500000-", "bytes=1500000-"]


def test_another_call_resumes_the_download(server, tmp_path):
    (tmp_path / "set.tar.part").write_bytes(CONTENT[:3_000_000])
    path, _ = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.requested == ["bytes=3000000-"]
    (tmp_path / "set.tar.part").write_bytes(CONTENT)
    path.unlink()
    assert get(server, tmp_path)[0].read_bytes() == CONTENT
    assert len(server.requested) == 1, "the complete file is not requested again"


def test_without_ranges_the_download_starts_again(server, tmp_path):
    server.ranges = False
    server.cuts = [1_000_000]
    path, _ = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.requested == [None, "bytes=1000000-"]


def test_a_server_that_sends_another_range(server, tmp_path):
    server.shift = 7
    (tmp_path / "set.tar.part").write_bytes(CONTENT[:1000])
    path, _ = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.requested == ["bytes=1000-", None]


def test_a_server_that_always_interrupts(server, tmp_path):
    server.cuts = [2_000_000] + [0] * 50
    with pytest.raises(
        SpmlError, match=r"can't be downloaded .*2,000,000 of 5,120,000 bytes were downloaded"
    ):
        get(server, tmp_path)
    assert len(server.requested) == 1 + download.ATTEMPTS
    assert (tmp_path / "set.tar.part").read_bytes() == CONTENT[:2_000_000]
    server.cuts = []
    assert get(server, tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("checksum", ["sha256:" + "0" * 64, "md5:" + "0" * 32])
def test_wrong_checksum(server, tmp_path, checksum):
    name = checksum.split(":")[0]
    digest = hashlib.new(name, CONTENT).hexdigest()
    with pytest.raises(SpmlError, match=f"is not the official file: its {name} is {digest} instead of 0000"):
        get(server, tmp_path, checksum=checksum)
    assert not any(tmp_path.iterdir()), "a wrong file is removed; otherwise no further attempt could succeed"


def test_no_more_than_the_official_size_is_downloaded(server, tmp_path):
    with pytest.raises(SpmlError, match="is not the official file: its sha256"):
        get(server, tmp_path, size=1_000_000)
    with pytest.raises(SpmlError, match=r"5,120,000 of 5,120,001 bytes were downloaded"):
        get(server, tmp_path, size=len(CONTENT) + 1)


def test_an_existing_file_is_only_verified(server, tmp_path):
    (tmp_path / "set.tar").write_bytes(CONTENT)
    assert get(server, tmp_path)[1] == [f"{tmp_path / 'set.tar'}: exists already; verifying its checksum"]
    (tmp_path / "set.tar").write_bytes(CONTENT[:-1])
    with pytest.raises(
        InputError, match=r"set\.tar: it has 5,119,999 bytes instead of 5,120,000\. Remove it"
    ):
        get(server, tmp_path)
    (tmp_path / "set.tar").write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(InputError, match=r"set\.tar: its sha256 is "):
        get(server, tmp_path)
    assert server.requested == []


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (403, 1), (416, 1), (503, 5), (429, 5)])
def test_refusals(server, tmp_path, status, attempts):
    server.status = status
    with pytest.raises(SpmlError, match=f"can't be downloaded \\(the server answered {status} "):
        get(server, tmp_path)
    assert len(server.requested) == attempts


def test_no_server(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    server.shutdown()
    server.server_close()
    with pytest.raises(
        SpmlError, match=r"can't be downloaded \(.*refused.*0 of 5,120,000 bytes were downloaded"
    ):
        get(server, tmp_path)


def test_a_folder_that_can_not_be_written(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpmlError, match=r"set\.tar\.part: could not be written"):
        get(server, tmp_path / "file")
    assert server.requested == []


def test_a_full_disk_is_not_tried_again(server, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "open", full, raising=False)
    with pytest.raises(SpmlError, match=r"could not be written \(No space left on device\)"):
        get(server, tmp_path)
    assert len(server.requested) == 1
