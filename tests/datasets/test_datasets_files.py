import gzip
import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from psimil import datasets
from psimil.datasets import published
from psimil.foundations.errors import InputError, MissingFile, OutputError

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
NAME, CONTENT = "numbers.csv", b"a,b\n" + b"1,2\n" * 500
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def known(url="https://localhost/", content=CONTENT):
    return {NAME: published.Published("toys", len(content), hashlib.sha256(content).hexdigest(), url)}


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(published, "PUBLISHED", known())


@pytest.fixture
def server(monkeypatch):
    """An http server on this machine; ``answers`` maps a path to the bytes or to a (status, header, value) reply."""
    answers = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = answers.get(self.path, (404, "X-Reason", "nothing here"))
            status, header, value = answer if isinstance(answer, tuple) else (200, "Content-Length", str(len(answer)))
            self.send_response(status)
            self.send_header(header, value)
            self.end_headers()
            if isinstance(answer, bytes):
                self.wfile.write(answer)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(published, "SCHEMES", ("https", "http"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(published, "PUBLISHED", known(f"{address}/numbers"))
        yield answers, address
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("place", [NAME, f"{NAME}.gz", f"toys/{NAME}", f"toys/{NAME}.gz"])
def test_locate_finds_plain_and_gzipped_in_both_places(tmp_path, table, place):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(CONTENT)
    assert datasets.locate(tmp_path, NAME) == path
    assert datasets.locate(str(tmp_path), NAME) == path


def test_locate_says_what_to_do(tmp_path, table):
    (tmp_path / f"{NAME}.gz").mkdir()  # a folder is no file
    with pytest.raises(MissingFile, match=r"numbers.csv \(or .csv.gz\) was not found in .* sub-folder toys. Name the"):
        datasets.locate(tmp_path, NAME)


@pytest.mark.parametrize("call", [datasets.locate, datasets.verify, datasets.fetch])
def test_unknown_names_are_refused(tmp_path, table, call):
    with pytest.raises(InputError, match=r"letters.csv is not a published file that is known. Known: numbers.csv."):
        call(tmp_path, "letters.csv")


@pytest.mark.parametrize("content", [CONTENT, gzip.compress(CONTENT, 1, mtime=0), gzip.compress(CONTENT, 9, mtime=7)])
def test_verify_accepts_any_packing_of_the_content(tmp_path, table, content):
    path = tmp_path / "whatever"
    path.write_bytes(content)
    datasets.verify(path, NAME)


@pytest.mark.parametrize("change", [CONTENT[:-1], CONTENT + b"\n", CONTENT.replace(b"1", b"3", 1), b"", CONTENT * 99])
def test_verify_refuses_other_content(tmp_path, table, change):
    path = tmp_path / f"{NAME}.gz"
    path.write_bytes(gzip.compress(change))
    message = rf"numbers.csv.gz: content is not the published file \(SHA-256 .*, expected {DIGEST[:12]}...\). Replace"
    with pytest.raises(InputError, match=message):
        datasets.verify(path, NAME)


def test_verify_refuses_what_cannot_be_read(tmp_path, table, monkeypatch):
    path = tmp_path / NAME
    path.write_bytes(gzip.compress(CONTENT)[:-9])
    with pytest.raises(InputError, match=r"numbers.csv cannot be read"):
        datasets.verify(path, NAME)
    with pytest.raises(InputError, match="cannot be read"):
        datasets.verify(tmp_path, NAME)
    with pytest.raises(MissingFile, match="gone was not found"):
        datasets.verify(tmp_path / "gone", NAME)
    monkeypatch.setattr(published, "MAX_BYTES", 1000)
    path.write_bytes(gzip.compress(CONTENT))
    with pytest.raises(InputError, match="above the limit of 1000 bytes"):
        datasets.verify(path, NAME)


def test_fetch_takes_what_is_there_and_checks_it(tmp_path, table):
    (tmp_path / NAME).write_bytes(CONTENT)
    assert datasets.fetch(tmp_path, NAME) == tmp_path / NAME
    (tmp_path / NAME).write_bytes(b"other")
    with pytest.raises(InputError, match="not the published file"):
        datasets.fetch(tmp_path, NAME)


@pytest.mark.parametrize(("sent", "stored"), [(CONTENT, NAME), (gzip.compress(CONTENT, mtime=0), f"{NAME}.gz")])
@pytest.mark.parametrize("folder", ["data", "toys"])
def test_fetch_downloads_into_the_folder_of_the_dataset(tmp_path, server, sent, stored, folder):
    answers, _ = server
    answers["/numbers"] = sent
    path = datasets.fetch(tmp_path / folder, NAME)
    assert path == tmp_path / folder / stored if folder == "toys" else tmp_path / folder / "toys" / stored
    assert path.read_bytes() == sent
    assert os.listdir(path.parent) == [stored]
    answers.clear()
    assert datasets.fetch(tmp_path / folder, NAME) == path  # now without the server


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (CONTENT[:-1], "download of numbers.csv: content is not the published file"),
        (gzip.compress(CONTENT + b"x", mtime=0), "download of numbers.csv: content is not the published file"),
        (gzip.compress(CONTENT, mtime=0)[:-9], "download of numbers.csv cannot be read"),
        (gzip.compress(bytes(1 << 20), mtime=0), "download of numbers.csv: content is above the limit"),
        (CONTENT * 2, r"sends more than the expected 3048 bytes; nothing was kept"),
    ],
)
def test_fetch_keeps_nothing_of_a_wrong_download(tmp_path, server, sent, message):
    answers, _ = server
    answers["/numbers"] = sent
    with pytest.raises(InputError, match=message) as caught:
        datasets.fetch(tmp_path, NAME)
    assert not isinstance(caught.value, MissingFile)
    assert list(tmp_path.iterdir()) == []


def test_fetch_reports_what_the_server_says(tmp_path, server):
    _, address = server
    message = (
        rf"numbers.csv is not in .*toys and could not be downloaded: .* answers 404 Not Found. .*{address}/numbers"
    )
    with pytest.raises(MissingFile, match=message):
        datasets.fetch(tmp_path, NAME)


def test_fetch_without_a_network_says_so(tmp_path, server, monkeypatch):
    monkeypatch.setattr(published, "PUBLISHED", known("http://127.0.0.1:9/numbers"))  # the discard port: nobody listens
    with pytest.raises(MissingFile, match=r"127.0.0.1:9 cannot be reached .* Check the network, or download"):
        datasets.fetch(tmp_path, NAME)


def test_fetch_follows_redirections_to_allowed_schemes_only(tmp_path, server):
    answers, address = server
    answers["/numbers"] = (302, "Location", f"{address}/moved")
    answers["/moved"] = CONTENT
    assert datasets.fetch(tmp_path / "a", NAME).read_bytes() == CONTENT
    answers["/numbers"] = (302, "Location", "ftp://127.0.0.1/numbers")
    with pytest.raises(InputError, match=r"ftp://127.0.0.1/numbers is not an https address"):
        datasets.fetch(tmp_path / "b", NAME)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("scheme", ["http", "file", "ftp"])
def test_fetch_speaks_https_only(tmp_path, monkeypatch, scheme):
    monkeypatch.setattr(published, "PUBLISHED", known(f"{scheme}://localhost/numbers"))
    with pytest.raises(InputError, match="is not an https address; nothing was downloaded"):
        datasets.fetch(tmp_path, NAME)


def test_fetch_into_a_file_is_refused(tmp_path, server):
    answers, _ = server
    answers["/numbers"] = CONTENT
    (tmp_path / "data").write_text("mine")
    with pytest.raises(OutputError, match="cannot make the folder"):
        datasets.fetch(tmp_path / "data", NAME)
    assert (tmp_path / "data").read_text() == "mine"


def test_every_published_file_has_a_pinned_address():
    assert len(published.PUBLISHED) == 15
    assert len({file.sha256 for file in published.PUBLISHED.values()}) == 15
    assert len({file.url for file in published.PUBLISHED.values()}) == 15
    for file in published.PUBLISHED.values():
        assert file.url.startswith("https://")
        assert len(bytes.fromhex(file.sha256)) == 32


@pytest.mark.data
@pytest.mark.parametrize("name", published.PUBLISHED)
def test_published_files_are_the_ones_at_hand(name):
    known = published.PUBLISHED[name]
    if not (DATA / known.folder).is_dir():
        pytest.skip("the published files are not at hand")
    path = datasets.locate(DATA, name)
    datasets.verify(path, name)
    with gzip.open(path, "rb") as stream:
        assert len(stream.read()) == known.size
