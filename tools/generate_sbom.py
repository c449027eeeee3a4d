"""Write the image's SBOM (CycloneDX 1.6): deploy/image/sbom.cdx.json; `--check` compares it.

It names the pinned packages, the BPF objects with their licence, the base image, and, as
excluded, what only builds. The one in the image is written while the image is built
(`--wheel WHEEL --output FILE`), and has the hashes of the wheel and of each object too: they
change with every line of source, so the one in the repository does without.

The Debian packages and the Python of the base are not listed: they come by its digest, and a
scanner of the image lists them.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
import uuid
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools")]

from cyclonedx.model import HashAlgorithm, HashType  # noqa: E402
from cyclonedx.model.bom import Bom  # noqa: E402
from cyclonedx.model.component import Component, ComponentScope, ComponentType  # noqa: E402
from cyclonedx.model.license import LicenseExpression  # noqa: E402
from cyclonedx.output.json import JsonV1Dot6  # noqa: E402
from packageurl import PackageURL  # noqa: E402

from build_bpf import ARCHITECTURES, OBJECTS, SOURCES  # noqa: E402
from image_pins import Pin, read_pins  # noqa: E402

IMAGE = ROOT / "deploy" / "image"
OUTPUT = IMAGE / "sbom.cdx.json"
NAME_SPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "gpugauge.io")
"""The serial number of an SBOM is a function of what it lists."""


def version() -> str:
    """Return the version of this source."""
    text = (ROOT / "src" / "gpugauge" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.M)
    if found is None:
        raise SystemExit("src/gpugauge/__init__.py has no __version__.")
    return found[1]


def package(pin: Pin, licence: str, scope: ComponentScope) -> Component:
    """Return a pinned package."""
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{scope.value}:{pin.name}",
        scope=scope,
        purl=PackageURL("pypi", None, pin.name, pin.version),
        licenses=[LicenseExpression(licence)],
    )


def packages(file: str, part: str, scope: ComponentScope) -> dict[str, tuple[Pin, Component]]:
    """Return the packages of a requirements file by name.

    Raises:
        SystemExit: A licence is missing or left over.
    """
    licences = tomllib.loads((IMAGE / "licences.toml").read_text())[part]
    pins = {pin.name: pin for pin in read_pins(IMAGE / file)}
    if pins.keys() != licences.keys():
        names = ", ".join(sorted(pins.keys() ^ licences.keys()))
        raise SystemExit(f"[{part}] of deploy/image/licences.toml is stale about: {names}")
    return {name: (pin, package(pin, licences[name], scope)) for name, pin in pins.items()}


def bpf_objects(wheel: Path | None) -> list[Component]:
    """Return the BPF objects in the wheel, each with the licence that its source states."""
    found = []
    folder = OBJECTS.relative_to(ROOT / "src").as_posix()
    for name, source in SOURCES.items():
        licence = re.search(r"SPDX-License-Identifier: ([\w.+ -]*\w)", source.read_text())
        if licence is None:
            raise SystemExit(f"{source.relative_to(ROOT)} states no licence.")
        for architecture in ARCHITECTURES:
            path = f"{folder}/{name}.{architecture}.o"
            found.append(
                Component(
                    name=path,
                    version=version(),
                    type=ComponentType.FILE,
                    bom_ref=f"file:{path}",
                    description=f"BPF programs, compiled of {source.relative_to(ROOT)}",
                    licenses=[LicenseExpression(licence[1])],
                    hashes=sha256(zipfile.ZipFile(wheel).read(path)) if wheel else [],
                )
            )
    return found


def sha256(data: bytes) -> list[HashType]:
    """Return the hash of some bytes."""
    return [HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(data).hexdigest())]


def base_image() -> Component:
    """Return the base that the Dockerfile names."""
    found = re.search(r"^ARG PYTHON_IMAGE=(\S+):(\S+)$", (IMAGE / "Dockerfile").read_text(), re.M)
    if found is None:
        raise SystemExit("deploy/image/Dockerfile names no PYTHON_IMAGE.")
    return Component(
        name=found[1],
        version=found[2],
        type=ComponentType.CONTAINER,
        bom_ref="base",
        description="The base image; a release names its digest instead",
    )


def document(wheel: Path | None = None) -> str:
    """Return the SBOM as JSON, the same for the same input.

    Args:
        wheel: What is in the image; None leaves out what changes with every line of source.
    """
    own = Component(
        name="gpugauge",
        version=version(),
        type=ComponentType.APPLICATION,
        bom_ref="gpugauge",
        purl=PackageURL("pypi", None, "gpugauge", version()),
        licenses=[LicenseExpression("Apache-2.0")],
        hashes=sha256(wheel.read_bytes()) if wheel else [],
    )
    bom = Bom()
    bom.metadata.timestamp = None  # type: ignore[assignment]  # optional in the format
    bom.metadata.component = own
    objects, base = bpf_objects(wheel), base_image()
    used = packages("requirements.txt", "image", ComponentScope.REQUIRED)
    builders = packages("build.txt", "build", ComponentScope.EXCLUDED)
    every = [component for part in (used, builders) for _, component in part.values()]
    for component in (*objects, base, *every):
        bom.components.add(component)
    named = [component for pin, component in used.values() if own.name in pin.needed_by]
    bom.register_dependency(own, [*objects, base, *named])
    for part in (used, builders):
        for name in part:
            needed = [component for pin, component in part.values() if name in pin.needed_by]
            bom.register_dependency(part[name][1], needed)
    text = JsonV1Dot6(bom)
    bom.serial_number = uuid.UUID(int=0)
    bom.serial_number = uuid.uuid5(NAME_SPACE, text.output_as_string())
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def main() -> None:
    """Write or compare."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare, and write nothing")
    arguments.add_argument("--wheel", type=Path, help="the wheel that is in the image")
    arguments.add_argument("--output", type=Path, default=OUTPUT, help="the file to write")
    given = arguments.parse_args()
    text = document(given.wheel)
    if not given.check:
        given.output.write_text(text)
    elif not given.output.exists() or given.output.read_text() != text:
        sys.exit(f"{given.output.name} is stale: run make generate")


if __name__ == "__main__":
    main()
