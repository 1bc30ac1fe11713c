"""Orthanc, an archive that the project has not written, with its DICOMweb plugin; one per test module, on localhost."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / ".dicom-tools"
PLUGIN = "usr/share/orthanc/plugins/libOrthancDicomWeb.so"


def program():
    """Where Orthanc is: on the PATH, or what scripts/install_dicom_tools.sh unpacked; None if nowhere."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", str(UNPACKED / "bin")])
    return shutil.which("Orthanc", path=path)


def plugin():
    """Where its DICOMweb plugin is."""
    return next(path for path in (Path("/") / PLUGIN, UNPACKED / "root" / PLUGIN) if path.exists())


def why_not():
    """Why there can be no archive here, or None; under CI a missing one is an error and no excuse."""
    if os.environ.get("CI"):
        return None
    return None if program() else "Orthanc is not installed: sh scripts/install_dicom_tools.sh"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Orthanc:
    """The archive, as its administrator sees it."""

    def __init__(self, port, users):
        self.port, self.root = port, f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/dicom-web"
        handlers = []
        if users:
            (user, password), passwords = next(iter(users.items())), urllib.request.HTTPPasswordMgrWithDefaultRealm()
            passwords.add_password(None, self.root, user, password)
            handlers.append(urllib.request.HTTPBasicAuthHandler(passwords))
        self._open = urllib.request.build_opener(*handlers).open

    def ask(self, path, data=None, method=None):
        """Bytes of an answer of Orthanc's own interface, which is not DICOMweb."""
        with self._open(urllib.request.Request(f"{self.root}/{path}", data, method=method), timeout=10) as answer:
            return answer.read()

    def delete(self, study):
        """Remove a study with all that is filed in it."""
        for found in json.loads(self.ask("studies?expand")):
            if found["MainDicomTags"]["StudyInstanceUID"] == study:
                self.ask(f"studies/{found['ID']}", method="DELETE")

    def upload(self, *files):
        for file in files:
            self.ask("instances", Path(file).read_bytes())

    def reports(self):
        """By study, the DICOM files of all structured reports."""
        found = {}
        for instance in json.loads(self.ask("instances?expand")):
            tags = json.loads(self.ask(f"instances/{instance['ID']}/simplified-tags"))
            found.setdefault(tags["StudyInstanceUID"], [])
            if tags["Modality"] == "SR":
                found[tags["StudyInstanceUID"]].append(self.ask(f"instances/{instance['ID']}/file"))
        return found


@contextlib.contextmanager
def orthanc(folder, users=None):
    """An empty archive whose files are in a folder; ``users`` by name with their passwords, None lets anyone in."""
    port = free_port()
    settings = {
        "StorageDirectory": str(folder / "db"), "IndexDirectory": str(folder / "db"), "Plugins": [str(plugin())],
        "HttpPort": port, "RemoteAccessAllowed": False, "DicomServerEnabled": False, "OverwriteInstances": False,
        "AuthenticationEnabled": bool(users), "RegisteredUsers": users or {}, "ConcurrentJobs": 1,
        "DicomWeb": {"Enable": True, "Root": "/dicom-web/"},
    }  # fmt: skip
    (folder / "orthanc.json").write_text(json.dumps(settings))
    with (folder / "orthanc.log").open("wb") as log:
        process = subprocess.Popen([program(), str(folder / "orthanc.json")], cwd=folder, stdout=log, stderr=log)
        try:
            archive = Orthanc(port, users)
            for _ in range(300):
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    archive.ask("system")
                    break
                assert process.poll() is None, (folder / "orthanc.log").read_text()
                time.sleep(0.05)
            yield archive
        finally:
            process.kill()  # nothing of it is kept, and a polite end takes seconds
            process.wait(30)
