"""Gallery and tutorial by a `stakes` from its wheel: python tests/soak/wheel_tutorial.py ENVIRONMENT [--quick].

Every example, and every command of the page, in an empty folder, with nothing of this clone at hand; `--quick` trains
for two epochs.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from page_blocks import ROOT, blocks, commands

QUICK = {"stakes fit": "stakes fit --decision-weight 0.1 --epochs 2 --members 50 --workers 1"}


def main(environment: Path, quick: bool) -> None:
    lines = [line for block in blocks(ROOT / "docs" / "tutorials" / "table.md", "console") for line in commands(block)]
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    known["MPLBACKEND"] = "agg"  # no window
    known["PATH"] = f"{environment / 'bin'}{os.pathsep}{known['PATH']}"
    with tempfile.TemporaryDirectory() as empty:

        def run(line: str) -> str:
            print(f"$ {line}", flush=True)  # noqa: T201
            done = subprocess.run(
                ["sh", "-ec", line], cwd=empty, env=known, text=True, stdout=subprocess.PIPE, check=True
            )
            return done.stdout

        home = run("python -c 'import stakes; print(stakes.__file__)'").strip()
        assert Path(home).is_relative_to(environment), f"stakes is taken from {home}"
        examples = re.findall(r"\.\./examples/(\w+\.py)", (ROOT / "docs" / "index.md").read_text("utf-8"))
        for name in examples:
            shutil.copy(ROOT / "examples" / name, empty)
            run(f"python -W error {name}")
        for line in lines:
            for words, fewer in QUICK.items() if quick else ():
                line = line.replace(words, fewer)
            run(line)
        assert (Path(empty) / "brittany" / "report.html").exists()
        assert len((Path(empty) / "decisions.csv").read_text().splitlines()) > 1000
    print(f"{len(examples)} examples and {len(lines)} commands of the tutorial ran")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), "--quick" in sys.argv[2:])
