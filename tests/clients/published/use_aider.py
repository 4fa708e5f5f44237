"""The program `aider`, which edits files by the text of the answer and offers no tools."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as home:
    env = {
        **os.environ,
        "HOME": home,
        "OPENAI_API_BASE": os.environ["OPENAI_BASE_URL"],
        "AIDER_ANALYTICS_DISABLE": "true",
    }

    def aider(*arguments):
        program = str(Path(sys.executable).with_name("aider"))
        common = ["--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-pretty"]
        command = [program, "--model", "openai/scripted-1", *common, *arguments]
        done = subprocess.run(command, cwd=home, env=env, text=True, capture_output=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    said = aider("--message", "<q>One</q>")
    assert "answer 1 to One" in said, said
    said = aider("--no-stream", "--restore-chat-history", "--message", "<q>Two</q>")
    assert "to Two" in said, said
