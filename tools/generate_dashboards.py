"""Write deploy/helm/gpugauge/dashboards/*.json from deploy/grafana; `--check` compares them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from deploy.grafana.catalog import texts  # noqa: E402

OUTPUT = ROOT / "deploy" / "helm" / "gpugauge" / "dashboards"

if __name__ == "__main__":
    made = {OUTPUT / f"{name}.json": text for name, text in texts().items()}
    if "--check" in sys.argv:
        written = {path: path.read_text() for path in OUTPUT.glob("*.json")}
        stale = [path for path, text in made.items() if written.get(path) != text]
        stale += sorted(set(written) - set(made))
        if stale:
            sys.exit(f"{stale[0].relative_to(ROOT)} is stale: run make generate")
    else:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        for path in set(OUTPUT.glob("*.json")) - set(made):
            path.unlink()
        for path, text in made.items():
            path.write_text(text)
