"""What an archive may answer, true or not: bounded in size and time, never followed elsewhere, never believed."""

import contextlib
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time

import pytest

from faulty_proxy import message
from orthanc import orthanc, why_not
from psimil.ct.dicomweb.archive import MOST_IMAGES, PAGE, Archive, Instance, one_part, only_part
from psimil.ct.dicomweb.connection import PASSWORD, USER, Connection
from psimil.foundations.errors import DataWarning, InputError, ServerFault

IMAGE = Instance("1.2", "1.2.3", "1.2.3.4")


@contextlib.contextmanager
def server(*answers, drip=None):
    """A server that gives these answers, one per request, whatever it is asked; the last one again and again."""
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            for number in range(10_000):
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client, contextlib.suppress(OSError):
                    asked.append(message(client).decode())
                    answer = answers[min(number, len(answers) - 1)]
                    for byte in answer if drip else ():
                        client.sendall(bytes([byte]))
                        time.sleep(drip)
                    client.sendall(answer if not drip else b"")

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/dicom-web", asked


def answer(body=b"", status="200 OK", **headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def row(**values):
    tags = {"study": "0020000D", "series": "0020000E", "uid": "00080018", "images": "00201208", "modality": "00080060"}
    return {tags[name]: {"vr": "UI", "Value": [value]} for name, value in values.items()}


def archive_of(url, timeout=2.0):
    return Archive(Connection.of(url, timeout))


# Lists


def test_studies_are_listed_page_by_page_and_by_the_query_of_the_url():
    pages = [[row(study=f"1.{page}.{n}", images=n) for n in range(size)] for page, size in ((0, PAGE), (1, 3))]
    with server(*map(answer, pages)) as (url, asked):
        found = archive_of(f"{url}?StudyDate=20260101-").studies()
    assert len(found) == PAGE + 3 and found["1.1.2"] == 2
    assert [re.search(r"offset=(\d+)", line)[1] for line in asked] == ["0", str(PAGE)]
    assert all("StudyDate=20260101-" in line and "ModalitiesInStudy=CT" in line for line in asked)


def test_a_server_without_pages_is_not_asked_for_ever():
    with server(answer([row(study=f"1.{n}", images=1) for n in range(PAGE + 5)])) as (url, asked):
        assert len(archive_of(url).studies()) == PAGE + 5
    assert len(asked) == 2


def test_a_study_without_a_count_is_counted_and_two_patients_in_one_are_added():
    images = [row(series="1.1", uid=f"1.1.{n}", modality="CT") for n in range(4)]
    with server(answer([row(study="1.2")]), answer(images)) as (url, _):
        assert archive_of(url).studies() == {"1.2": 4}
    with server(answer([row(study="1.2", images=4), row(study="1.2", images=1)])) as (url, _):
        assert archive_of(url).studies() == {"1.2": 5}


@pytest.mark.parametrize("uid", ["../../system", "1.2/3", "", "1.2?x=y", "1" * 65, "..", "1.2\r\nX: y", 7, None])
def test_a_uid_that_could_lead_elsewhere_is_left_out_with_a_warning(uid):
    with server(answer([row(study=uid, images=1), row(study="1.2", images=1)])) as (url, _):
        with pytest.warns(DataWarning, match="left out"):
            assert archive_of(url).studies() == {"1.2": 1}
    with server(answer([row(series="1.1", uid=uid, modality="CT")])) as (url, _), pytest.raises(InputError):
        archive_of(url).instances("1.2")


def test_images_of_other_modalities_and_raw_data_are_left_out():
    raw = row(series="1.1", uid="1.3", modality="CT") | {"00080016": {"Value": ["1.2.840.10008.5.1.4.1.1.66"]}}
    rows = [row(series="1.1", uid="1.1", modality="CT"), row(series="1.1", uid="1.2", modality="SR"), raw]
    with server(answer(rows)) as (url, _):
        assert [image.uid for image in archive_of(url).instances("1.2")] == ["1.1"]


def test_a_study_of_too_many_images_is_refused():
    pages = [
        answer([row(series="1.1", uid=f"1.{page}.{n}", modality="CT") for n in range(PAGE)])
        for page in range(MOST_IMAGES // PAGE + 2)
    ]
    with server(*pages) as (url, _), pytest.raises(InputError, match="limit"):
        archive_of(url).instances("1.2")


BAD_LISTS = {
    "no JSON": answer(b"<html>"),
    "cut JSON": answer(b'[{"0020'),
    "deep": answer(b"[" * 100_000),
    "no list": answer(7),
    "no rows": answer([1, 2]),
    "cut": answer([row(study="1.2", images=1)])[:-5],
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "nothing": b"",
    "cut in its head": answer([row(study="1.2", images=1)])[:25],
    "empty": answer(b""),
    "long header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n[]",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 1000 + b"\r\n[]",
    "500": answer(b"", "500 Internal Server Error"),
    "404": answer(b"", "404 Not Found"),
    "gzip": answer(b"", Content_Encoding="gzip"),
    "bad chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n[]\r\n",
}


@pytest.mark.parametrize("kind", BAD_LISTS)
def test_a_bad_list_is_the_servers_fault(kind):
    with server(BAD_LISTS[kind]) as (url, _), pytest.raises(ServerFault, match=r"^the server"):
        archive_of(url).studies()


def test_an_empty_answer_is_an_empty_list():
    with server(answer(b"", "204 No Content")) as (url, _):
        assert archive_of(url).studies() == {} and not archive_of(url).holds("1.2", "1.3")


def test_no_redirect_is_followed():
    with server(answer([row(study="1.2", images=1)])) as (other, seen):
        with server(answer(b"", "302 Found", Location=other)) as (url, _):
            with pytest.raises(ServerFault, match="points to another place"):
                archive_of(url).studies()
    assert seen == []


def test_silence_and_drops_of_an_answer_end(monkeypatch):
    monkeypatch.setattr("psimil.ct.dicomweb.connection.PATIENCE", 2)
    for drip in (5.0, 0.05):  # silence for longer than the timeout, and never so long
        started = time.monotonic()
        with server(answer([row(study="1.2", images=1)] * 50), drip=drip) as (url, _), pytest.raises(ServerFault):
            archive_of(url, timeout=0.3).studies()
        assert time.monotonic() - started < 3


# Files


def parts(*files, end=b"--\r\n"):
    body = b"".join(b"--b\r\nContent-Type: application/dicom\r\n\r\n" + file + b"\r\n" for file in files)
    return body + b"--b" + end


MULTIPART = 'multipart/related; type="application/dicom"; boundary=b'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (parts(b"DICM\r\n--a"), MULTIPART),
        (b"\r\n" + parts(b"DICM\r\n--a"), 'Multipart/Related; boundary="b"; type="application/dicom"'),
        (b"DICM\r\n--a", "application/dicom"),
    ],
)
def test_one_file_is_fetched_as_it_is(body, kind, tmp_path):
    with server(answer(body, Content_Type=kind)) as (url, asked):
        assert archive_of(url).fetch(IMAGE, tmp_path / "a", 1000) == 9
    assert (tmp_path / "a").read_bytes() == b"DICM\r\n--a"
    assert asked[0].startswith("GET /dicom-web/studies/1.2/series/1.2.3/instances/1.2.3.4 ")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (parts(b"DICM", b"DICM"), MULTIPART),
        (parts(b"DICM", end=b""), MULTIPART),
        (parts(b"DICM")[:-8], MULTIPART),
        (parts(), MULTIPART),
        (b"", MULTIPART),
        (b"a" * 100_000, MULTIPART),
        (parts(b"DICM"), MULTIPART.replace("=b", "=c")),
        (parts(b"DICM"), "multipart/related"),
        (parts(b"DICM"), "multipart/related; boundary=" + "b" * 71),
        (b"<html>", "text/html"),
        (b"a" * (1 << 18), "application/dicom"),
    ],
)
def test_a_bad_file_is_the_servers_fault_and_not_kept(body, kind, tmp_path):
    with server(answer(body, Content_Type=kind)) as (url, _), pytest.raises(ServerFault):
        archive_of(url).fetch(IMAGE, tmp_path / "a", 1 << 17)
    assert list(tmp_path.iterdir()) == []


def test_every_cut_of_a_file_is_seen():
    kind, body = one_part(b"DICM" * 5)
    for end in range(len(body) - 4):  # what comes after the last delimiter does not count
        with pytest.raises(ServerFault):
            only_part(kind, body[:end])


def test_a_report_that_is_not_taken_is_a_fault():
    failed = {"00081198": {"vr": "SQ", "Value": [{}]}}
    for said in (answer(failed), answer(b"", "409 Conflict"), answer(b"", "507 Insufficient Storage")):
        with server(said) as (url, _), pytest.raises(ServerFault):
            archive_of(url).store("1.2", b"DICM")
    with server(answer(b"")) as (url, asked):
        archive_of(url).store("1.2", b"DICM")
    assert asked[0].startswith("POST /dicom-web/studies/1.2 ") and "DICM" in asked[0]


# Who asks whom


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8042",
        "ftp://localhost/",
        "file:///etc/passwd",
        "http://",
        "http://a:x/",
        "http://a b/",
        "http://[/",
    ],
)
def test_only_urls_of_web_servers_are_asked(url):
    with pytest.raises(InputError, match="root of a DICOMweb server"):
        Connection.of(url)


def test_a_password_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(InputError, match="seen by others") as refusal:
        Connection.of("http://me:secret@localhost/dicom-web")
    assert "secret" not in str(refusal.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_certificate_of_nobody_is_not_trusted(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = {"-keyout": tmp_path / "key", "-out": tmp_path / "cert", "-subj": "/CN=localhost", "-days": 1}
    words = [str(word) for pair in names.items() for word in pair]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *words], check=True, capture_output=True
    )
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                context.wrap_socket(listener.accept()[0], server_side=True)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ServerFault, match="SSL_CERT_FILE"):
            archive_of(f"https://localhost:{listener.getsockname()[1]}").studies()


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_user_comes_from_the_environment_or_a_netrc_file(tmp_path, monkeypatch):
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv(USER, raising=False)
    with orthanc(tmp_path, {"reader": "secret"}) as archive:
        with pytest.raises(ServerFault, match=r"401.*PSIMIL_DICOMWEB_USER"):
            archive_of(archive.url).studies()
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login reader password secret\n")
        assert archive_of(archive.url).studies() == {}
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login reader password wrong\n")
        monkeypatch.setenv(USER, "reader")
        monkeypatch.setenv(PASSWORD, "secret")
        found = archive_of(archive.url)
        assert found.studies() == {} and "secret" not in repr(found) and "Basic" not in repr(found)
    with pytest.warns(DataWarning, match="in the clear"):
        archive_of("http://pacs.example.org/dicom-web")
    (tmp_path / "netrc").write_text("nonsense secret")
    monkeypatch.delenv(USER)
    with pytest.raises(InputError, match="netrc file") as refusal:
        archive_of("http://127.0.0.1")
    assert "secret" not in str(refusal.value)
