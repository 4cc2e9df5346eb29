"""examples/distributed.py by torchrun, two processes, again and again: every run must print all its losses.

    python tests/soak/torchrun_example.py [--runs 20]

Torch 2.13 itself sometimes aborts a process that has done all its work ("terminate called without an active
exception", on leaving, with the store of torchrun): such ends are counted apart.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "distributed.py"


def run() -> tuple[bool, bool]:
    """Whether all losses were printed and fell, and whether both processes ended well."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    command = [*launch, "--nproc-per-node=2", str(EXAMPLE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    losses = re.findall(r"^epoch \d: loss (\d\.\d+) over 2 processes$", result.stdout, re.MULTILINE)
    aborted = "terminate called without an active exception" in result.stderr
    if result.returncode and not aborted:
        raise SystemExit(result.stderr)
    return len(losses) == 5 and float(losses[-1]) < 0.7, result.returncode == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    found = [run() for _ in range(parser.parse_args().runs)]
    sound, clean = (sum(each) for each in zip(*found, strict=True))
    sys.stdout.write(f"{sound} of {len(found)} runs complete, {clean} ended without an abort of torch\n")
    sys.exit(sound < len(found))
