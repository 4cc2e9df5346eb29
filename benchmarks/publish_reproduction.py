"""Put a reproduction into the documentation, in compact form.

    python -m benchmarks.publish_reproduction FOLDER reproduction/pages

Copies results.json, summary.parquet and the figures of a folder that `python -m reproduction` wrote, and writes
claims.md, figures.md, portfolios.md and base_scores.md from the results; the report itself and the models
stay where they are.
"""

import argparse
import json
import shutil
from pathlib import Path

from benchmarks.markdown import claims_markdown, figures_markdown, portfolios_markdown, scores_markdown


def publish(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in ("results.json", "summary.parquet"):
        shutil.copyfile(source / name, target / name)
    shutil.rmtree(target / "figures", ignore_errors=True)
    shutil.copytree(source / "figures", target / "figures")
    results = json.loads((source / "results.json").read_text())
    (target / "claims.md").write_text(claims_markdown(results["claims"]))
    (target / "figures.md").write_text(figures_markdown(results["figures"]))
    if results["portfolios"]:
        (target / "portfolios.md").write_text(portfolios_markdown(results["portfolios"]))
    if results["scores"]:
        (target / "base_scores.md").write_text(scores_markdown(results["scores"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of the reproduction")
    parser.add_argument("target", type=Path, help="folder in the documentation")
    chosen = parser.parse_args()
    publish(chosen.source, chosen.target)


if __name__ == "__main__":
    main()
