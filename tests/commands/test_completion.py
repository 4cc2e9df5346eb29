import shutil
import subprocess

import pytest
from calls import called


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    code, output, errors = called("completion", shell)
    assert (code, errors) == (0, "")
    assert "check-cost" in output
    assert "baseline-action" in output


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_a_command() -> None:
    script = called("completion")[1]
    ask = 'COMP_WORDS=(stakes dec); COMP_CWORD=1; _stakes; echo "${COMPREPLY[@]}"'
    result = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=False)
    assert (result.stdout.split(), result.stderr) == (["decide"], "")
