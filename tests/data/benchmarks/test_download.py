"""Downloads from a server of this machine: cut, resumed, wrong, refused."""

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
    """Sends CONTENT; `cuts` are bytes after which it hangs up, one for each of the first requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.cuts: list[int] = []
        self.ranges = True
        self.status = 0
        self.shift = 0
        self.asked: list[str | None] = []

    def handle_error(self, request, client_address):
        """A client that hangs up is part of the tests."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/data/set.tar?download=1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.server.status:
            self.send_error(self.server.status)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        self.send_response(206 if wanted and self.server.ranges else 200)
        if wanted and self.server.ranges:
            shown = start + self.server.shift
            self.send_header("Content-Range", f"bytes {shown}-{len(CONTENT) - 1}/{len(CONTENT)}")
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
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def archive(server, size=SIZE, checksum=CHECKSUM):
    return Archive(server.url, size, checksum)


def get(server, folder, **options):
    told: list[str] = []
    path = fetch(archive(server, **options), folder, told.append)
    return path, told


def test_download(server, tmp_path):
    path, told = get(server, tmp_path / "new")
    assert path == tmp_path / "new/set.tar"
    assert path.read_bytes() == CONTENT
    assert server.asked == [None]
    assert [line for line in told if "of 5 MB" in line][-1] == "set.tar: 5 of 5 MB"
    assert [p.name for p in path.parent.iterdir()] == ["set.tar"]


def test_a_cut_connection_is_resumed(server, tmp_path):
    server.cuts = [1_000_000, 500_000, 0, 0]
    path, _ = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-", "bytes=1500000-", "bytes=1500000-", "bytes=1500000-"]


def test_another_call_goes_on_with_what_is_there(server, tmp_path):
    (tmp_path / "set.tar.part").write_bytes(CONTENT[:3_000_000])
    path, _ = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == ["bytes=3000000-"]
    (tmp_path / "set.tar.part").write_bytes(CONTENT)
    path.unlink()
    assert get(server, tmp_path)[0].read_bytes() == CONTENT
    assert len(server.asked) == 1, "all was there: nothing is asked for"


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.ranges = False
    server.cuts = [1_000_000]
    path, _ = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-"]


def test_a_server_that_sends_another_piece(server, tmp_path):
    server.shift = 7
    (tmp_path / "set.tar.part").write_bytes(CONTENT[:1000])
    path, _ = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", None]


def test_a_server_that_always_cuts(server, tmp_path):
    server.cuts = [2_000_000] + [0] * 50
    with pytest.raises(SpmlError, match=r"can't be downloaded .*2,000,000 of 5,120,000 bytes are there"):
        get(server, tmp_path)
    assert len(server.asked) == 1 + download.ATTEMPTS
    assert (tmp_path / "set.tar.part").read_bytes() == CONTENT[:2_000_000]
    server.cuts = []
    assert get(server, tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("checksum", ["sha256:" + "0" * 64, "md5:" + "0" * 32])
def test_wrong_checksum(server, tmp_path, checksum):
    name = checksum.split(":")[0]
    found = hashlib.new(name, CONTENT).hexdigest()
    with pytest.raises(SpmlError, match=f"is not the official file: its {name} is {found} instead of 0000"):
        get(server, tmp_path, checksum=checksum)
    assert not any(tmp_path.iterdir()), "what is wrong is not kept, else no further attempt could succeed"


def test_no_more_than_the_stated_size_is_taken(server, tmp_path):
    with pytest.raises(SpmlError, match="is not the official file: its sha256"):
        get(server, tmp_path, size=1_000_000)
    with pytest.raises(SpmlError, match=r"5,120,000 of 5,120,001 bytes are there"):
        get(server, tmp_path, size=len(CONTENT) + 1)


def test_a_file_that_is_there_is_only_checked(server, tmp_path):
    (tmp_path / "set.tar").write_bytes(CONTENT)
    assert get(server, tmp_path)[1] == [f"{tmp_path / 'set.tar'}: is there already and is checked"]
    (tmp_path / "set.tar").write_bytes(CONTENT[:-1])
    with pytest.raises(
        InputError, match=r"set\.tar: it has 5,119,999 bytes instead of 5,120,000\. Remove it"
    ):
        get(server, tmp_path)
    (tmp_path / "set.tar").write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(InputError, match=r"set\.tar: its sha256 is "):
        get(server, tmp_path)
    assert server.asked == []


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (403, 1), (416, 1), (503, 5), (429, 5)])
def test_refusals(server, tmp_path, status, attempts):
    server.status = status
    with pytest.raises(SpmlError, match=f"can't be downloaded \\(the server answers {status} "):
        get(server, tmp_path)
    assert len(server.asked) == attempts


def test_no_server(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    server.shutdown()
    server.server_close()
    with pytest.raises(SpmlError, match=r"can't be downloaded \(.*refused.*0 of 5,120,000 bytes are there"):
        get(server, tmp_path)


def test_a_folder_that_can_not_be_written(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpmlError, match=r"set\.tar\.part: could not be written"):
        get(server, tmp_path / "file")
    assert server.asked == []


def test_a_full_disk_is_not_tried_again(server, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "open", full, raising=False)
    with pytest.raises(SpmlError, match=r"could not be written \(No space left on device\)"):
        get(server, tmp_path)
    assert len(server.asked) == 1
