"""The program `llm`, with a model in its file of additional OpenAI-compatible models."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

with tempfile.TemporaryDirectory() as home:
    model = {
        "model_id": "openvibe",
        "model_name": "scripted-1",
        "api_base": os.environ["OPENAI_BASE_URL"],
        "api_key_name": "openvibe",
        "supports_tools": True,
        "can_stream": True,
    }
    Path(home, "extra-openai-models.yaml").write_text(yaml.safe_dump([model]))
    env = {**os.environ, "LLM_USER_PATH": home}

    def llm(*arguments):
        program = str(Path(sys.executable).with_name("llm"))
        command = [program, *arguments]
        return subprocess.run(command, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()

    key = ["--key", os.environ["OPENAI_API_KEY"]]
    assert llm("-m", "openvibe", *key, "<q>One</q>") == "answer 1 to One"
    assert llm("-c", *key, "<q>Two</q>") == "answer 2 to Two"
    assert llm("-m", "openvibe", *key, "--no-stream", "-s", "You are terse.", "<q>Three</q>") == "answer 1 to Three"
    function = 'def weather(city: str) -> str:\n    "How it is outside."\n    return "rain in " + city'
    for more in ([], ["--no-stream"]):
        said = llm("-m", "openvibe", *key, *more, "--functions", function, "<q>How is the weather?</q>")
        assert said == "It is rain.", said
