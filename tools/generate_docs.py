"""Write docs/settings.md, docs/metrics.md and the golden exposition; `--check` compares them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from gpugauge.export.document import metrics_document  # noqa: E402
from gpugauge.settings.document import settings_document  # noqa: E402
from tests.support.golden import GOLDEN, golden_text  # noqa: E402

OUTPUTS = {
    ROOT / "docs" / "settings.md": settings_document,
    ROOT / "docs" / "metrics.md": metrics_document,
    GOLDEN: golden_text,
}

if __name__ == "__main__":
    for path, write in OUTPUTS.items():
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(write())
        elif not path.exists() or path.read_text() != write():
            sys.exit(f"{path.relative_to(ROOT)} is stale: run make generate")
