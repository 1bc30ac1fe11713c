import io
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydicom import dcmread
from pydicom.encaps import encapsulate
from pydicom.uid import JPEG2000Lossless, JPEGLSLossless, RLELossless

from ct_files import head, slice_dataset, write_enhanced, write_slice
from psimil.ct.dicom import decoder, sandbox
from psimil.ct.dicom.folder import SliceFile
from psimil.ct.dicom.headers import Header
from psimil.ct.dicom.sandbox import Sandbox
from psimil.ct.scans.series import read_series
from psimil.foundations.errors import InputError

HEADER = Header(SliceFile(Path("a"), 1, 9), rows=4, columns=4, signed=True, syntax=str(RLELossless))
ANSWER = r"""
import json, os, signal, sys, time
for line in iter(sys.stdin.buffer.readline, b""):
    request = json.loads(line)
    frame = sys.stdin.buffer.read(request["bytes"])
    {act}
    sys.stdout.buffer.write(json.dumps({{"problem": "", "bytes": 32}}).encode() + b"\n" + b"\1\0" * 16)
    sys.stdout.buffer.flush()
"""


def child(act):
    return (sys.executable, "-P", "-c", ANSWER.format(act=act))


def compress(path, syntax, **tags):
    dataset = dcmread(write_slice(path, **tags))
    dataset.compress(syntax, generate_instance_uid=False)
    dataset.save_as(path)
    return path


def read(path, **options):
    return read_series(path, hasher=str, **options)


@pytest.fixture(scope="module")
def box():
    """One child for many tests."""
    with Sandbox() as box:
        yield box


@pytest.mark.parametrize("syntax", [RLELossless, JPEGLSLossless])
def test_compressed_slices_equal_plain_ones(tmp_path, box, syntax):
    hu = head(blood=5)
    for z in (0, 5):
        compress(tmp_path / "packed" / str(z), syntax, z=z, hu=hu + z)
        write_slice(tmp_path / "plain" / str(z), z=z, hu=hu + z)
    np.testing.assert_array_equal(read(tmp_path / "packed", sandbox=box).hu, read(tmp_path / "plain").hu)


def test_compressed_frames_equal_plain_ones(tmp_path, box):
    path = write_enhanced(tmp_path / "m.dcm", 5)
    plain = read(path).hu
    dataset = dcmread(path)
    dataset.compress(RLELossless, generate_instance_uid=False)
    dataset.save_as(path)
    np.testing.assert_array_equal(read(path, sandbox=box).hu, plain)
    np.testing.assert_array_equal(plain[:, 0, 0], -1000 + np.arange(5))


def test_plain_slices_start_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox.subprocess, "Popen", None)
    read(write_slice(tmp_path / "a"))


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS"])
def test_a_crash_of_a_codec_costs_one_slice(name):
    """T7: the second image kills the child; the third gets a new one."""
    act = f'frame == b"bad" and os.kill(os.getpid(), signal.{name})'
    with Sandbox(child(act)) as box:
        assert box.decode(HEADER, b"good").tolist() == [[1] * 4] * 4
        with pytest.raises(InputError, match=r"^its compressed pixel data crashed the decoder.$"):
            box.decode(HEADER, b"bad")
        assert not box.running
        assert box.decode(HEADER, b"good").shape == (4, 4)


def test_a_decoder_that_never_ends_is_ended():
    with Sandbox(child("time.sleep(60)"), seconds=0.3) as box:
        with pytest.raises(InputError, match=r"takes longer or needs more memory than is allowed"):
            box.decode(HEADER, bytes(1 << 18))


@pytest.mark.parametrize(
    "act", ["print('hello', flush=True)", "sys.exit()", "print(json.dumps({'bytes': 1}), flush=True)"]
)
def test_a_decoder_that_talks_nonsense_is_not_believed(act):
    with Sandbox(child(act)) as box:
        with pytest.raises(InputError, match=r"crashed the decoder"):
            box.decode(HEADER, b"x")


def test_pixels_of_another_size_are_not_believed():
    with Sandbox(child("pass")) as box:
        with pytest.raises(InputError, match=r"damaged"):
            box.decode(replace(HEADER, rows=3), b"x")


def test_the_child_is_gone_after_use():
    with Sandbox(child("pass")) as box:
        box.decode(HEADER, b"x")
        process = box._process
    assert process.poll() is not None


def test_memory_of_the_child_is_limited():
    code = "import decoder; decoder.limit_process(200 << 20); bytearray(400 << 20)"
    folder = str(Path(decoder.__file__).parent)
    done = sandbox.subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.append({folder!r}); {code}"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"MemoryError" in done.stderr


def test_computing_time_of_the_child_is_limited():
    code = "import decoder; decoder.limit_seconds(0)\nwhile True: pass"
    folder = str(Path(decoder.__file__).parent)
    done = sandbox.subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.append({folder!r}); {code}"], check=False, timeout=600
    )
    assert done.returncode == -signal.SIGXCPU


def test_codecs_under_the_gpl_are_never_asked(monkeypatch):
    from pydicom.pixels.decoders import base

    asked = []

    class Decoder:
        available_plugins = ("pylibjpeg", "other")

        def as_array(self, *_, decoding_plugin, **__):
            asked.append(decoding_plugin)
            raise RuntimeError("canary")

    monkeypatch.setattr(base, "get_decoder", lambda _: Decoder())
    assert decoder.decode("1.2", b"xx", {"pixel_representation": 1, "bits_allocated": 16}) == ("damaged", b"")
    assert asked == ["other"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("cut", "compressed pixel data is cut short."),
        ("garbage", "compressed pixel data is damaged."),
        ("empty", "compressed pixel data has no fragment."),
    ],
)
def test_damaged_compressed_slices_are_bad_slices(tmp_path, box, damage, reason):
    for z in range(3):
        compress(tmp_path / str(z), RLELossless, z=z)
    path = tmp_path / "1"
    content = path.read_bytes()
    place = content.index(bytes.fromhex("e07f1000"))
    if damage == "cut":
        path.write_bytes(content[: place + 60])
    elif damage == "garbage":
        path.write_bytes(content[: place + 36] + b"\xff" * (len(content) - place - 60) + content[-24:])
    else:
        path.write_bytes(content[: place + 12] + bytes.fromhex("feff00e000000000feffdde000000000"))
    scan = read(tmp_path, skip_bad=True, sandbox=box)
    assert scan.positions.tolist() == [0, 2]
    assert scan.notes[-2:] == ("incomplete 2/3", f"file 2: {reason}")


def test_a_missing_codec_is_named(tmp_path, box):
    """B32."""
    compress(tmp_path / "a", RLELossless)
    dataset = dcmread(tmp_path / "a")
    dataset.file_meta.TransferSyntaxUID = unusual = "1.2.840.10008.1.2.4.103"
    dataset.save_as(tmp_path / "a", implicit_vr=False, little_endian=True)
    content = (tmp_path / "a").read_bytes()
    for syntax, words in (
        (unusual, r"compression 1\.2\.840\.10008\.1\.2\.4\.103"),
        ("1.2.3.4.5.6.7.8.9.10.11", "compression of an unknown kind"),
        ("1.2.840.10008.1.2.CANAR", "compression of an unknown kind"),
        ("1.2.840.10008.1.2.71203", "compression of an unknown kind"),  # as the day of a birth
    ):
        (tmp_path / "a").write_bytes(content.replace(unusual.encode(), syntax.encode()))
        with pytest.raises(InputError, match=rf"file 1: {words} needs an extra codec.*pip install .*\[ct\]"):
            read(tmp_path / "a", sandbox=box)


def test_damaged_bytes_never_raise_anything_else(tmp_path, box):
    """T7: random changes of compressed slices, all through one child."""
    rng = np.random.default_rng(0)
    content = bytearray(compress(tmp_path / "a", JPEGLSLossless).read_bytes())
    place = content.index(bytes.fromhex("e07f1000"))
    path = tmp_path / "changed"
    for _ in range(15):
        changed = content.copy()
        for where in rng.integers(place, len(content), rng.integers(1, 8)):
            changed[where] = rng.integers(256)
        path.write_bytes(changed)
        try:
            assert read(path, sandbox=box).hu.shape == (1, 32, 32)
        except InputError as error:
            assert str(error).startswith("1 of 1 slices cannot be read. file 1: ")


def jpeg2000(path, change=bytes):
    hu = head()
    stream = io.BytesIO()
    stored = (hu.astype(np.int32) + 1024).astype("<u2")
    Image.fromarray(stored).save(stream, "JPEG2000", irreversible=False, no_jp2=True)
    dataset = slice_dataset(hu=hu, syntax=JPEG2000Lossless, PixelRepresentation=0)
    dataset.PixelData = encapsulate([change(stream.getvalue())])
    dataset["PixelData"].is_undefined_length, dataset["PixelData"].VR = True, "OB"
    dataset.save_as(path, enforce_file_format=True)
    return path


def test_jpeg_2000_and_a_bomb_of_it(tmp_path):
    """T5: a codestream that claims 60000 x 60000 pixels in a header of 32 x 32."""

    def larger(content):
        place = content.index(b"\xff\x51") + 6
        side = (60000).to_bytes(4, "big")
        return content[:place] + side * 2 + content[place + 8 : place + 16] + side * 2 + content[place + 24 :]

    np.testing.assert_array_equal(read(jpeg2000(tmp_path / "a")).hu[0], head())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"file 1: (compressed pixel data is damaged|decompressing )"):
        read(jpeg2000(tmp_path / "b", larger))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (50 << 10)
