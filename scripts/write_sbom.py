"""Write sbom.cdx.json: the software bill of materials in CycloneDX 1.6, from constraints.txt and what is installed.

``python scripts/write_sbom.py`` in an environment with the ``dev`` extra. The file depends on the versions alone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from write_hashes import CONSTRAINTS, ROOT, pins

PROJECT, SBOM = ROOT / "pyproject.toml", ROOT / "sbom.cdx.json"
NAME, DEVELOPMENT = "psimil", ("dev", "docs")
LICENCE = "License :: OSI Approved :: "


def needs(requirements: Iterable[str], extras: Iterable[str] = ()) -> set[tuple[str, tuple[str, ...]]]:
    """Names and extras of the requirements that hold here.

    Examples
    --------
    >>> needs(["a>=1", "b; extra == 'c'"])
    {('a', ())}
    """
    found = set()
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in ("", *extras)):
            found.add((canonicalize_name(requirement.name), tuple(sorted(requirement.extras))))
    return found


def closure(requirements: Iterable[str]) -> set[str]:
    """Names of everything that requirements bring with them."""
    waiting, seen = list(needs(requirements)), set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) not in seen:
            seen.add((name, extras))
            found = installed(name)
            waiting += [] if found is None else needs(found.requires or (), extras)
    return {name for name, _ in seen}


def installed(name: str) -> Distribution | None:
    """Metadata of an installed project."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licences(found: Distribution) -> list[dict[str, Any]]:
    """The licence of a project: as an expression where it gives one, else by name, else the title of its text."""
    if expression := found.metadata.get("License-Expression"):
        return [{"expression": expression}]
    names = [c.removeprefix(LICENCE) for c in found.metadata.get_all("Classifier") or () if c.startswith(LICENCE)]
    text = found.read_text("licenses/LICENSE") or ""
    short = (found.metadata.get("License") or text).strip().splitlines()[:1]
    return [{"license": {"name": name}} for name in names or [line for line in short if len(line) < 80]]


def component(name: str, version: str, scope: str) -> dict[str, Any]:
    """One project of the bill."""
    found = installed(name)
    entry: dict[str, Any] = {"type": "library", "bom-ref": f"pkg:pypi/{name}@{version}", "name": name}
    entry |= {"version": version, "scope": scope, "purl": f"pkg:pypi/{name}@{version}"}
    if found is not None:
        entry |= {"description": found.metadata.get("Summary", "")}
        entry |= {"licenses": known} if (known := licences(found)) else {}
    return entry


def bill(versions: dict[str, str], project: dict[str, Any]) -> dict[str, Any]:
    """The whole document; parts that only developers need are "excluded", those of extras "optional"."""
    extras = {name: needed for name, needed in project["optional-dependencies"].items() if name not in DEVELOPMENT}
    required = closure(project["dependencies"])
    optional = closure(line for needed in extras.values() for line in needed)
    scopes = {n: "required" if n in required else "optional" if n in optional else "excluded" for n in versions}
    refs = {name: f"pkg:pypi/{name}@{version}" for name, version in versions.items()}
    own = f"pkg:pypi/{NAME}@{project['version']}"
    links = [
        {"ref": own, "dependsOn": sorted(refs[name] for name, _ in needs(project["dependencies"]) if name in refs)}
    ]
    for name, ref in sorted(refs.items()):
        found = installed(name)
        below = set() if found is None else {n for n, _ in needs(found.requires or ())}
        links.append({"ref": ref, "dependsOn": sorted(refs[each] for each in below if each in refs)})
    licence = [{"expression": project["license"]}]
    root = {"type": "library", "bom-ref": own, "name": NAME, "version": project["version"], "purl": own}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root | {"licenses": licence}},
        "components": [component(name, versions[name], scopes[name]) for name in sorted(versions)],
        "dependencies": links,
    }


def main() -> None:
    """Write the file."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found = bill(pins(CONSTRAINTS.read_text(encoding="utf-8")), project)
    SBOM.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    scopes = [part["scope"] for part in found["components"]]
    print(f"{SBOM.name}: {len(scopes)} components, " + ", ".join(f"{scopes.count(s)} {s}" for s in sorted(set(scopes))))


if __name__ == "__main__":
    main()
