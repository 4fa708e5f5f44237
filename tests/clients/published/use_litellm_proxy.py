"""LiteLLM's proxy between OpenAI's library and the server."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openai
import yaml

MASTER = "sk-" + os.urandom(32).hex()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
base, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
params = {"model": "openai/scripted-1", "api_base": base, "api_key": key}
with tempfile.TemporaryDirectory() as home:
    config = Path(home, "config.yaml")
    config.write_text(yaml.safe_dump({"model_list": [{"model_name": "through", "litellm_params": params}]}))
    program = str(Path(sys.executable).with_name("litellm"))
    arguments = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    env = {**os.environ, "LITELLM_MASTER_KEY": MASTER}
    proxy = subprocess.Popen(arguments, cwd=home, env=env, stdout=subprocess.DEVNULL)
    try:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=MASTER, max_retries=0)
        for attempt in range(240):
            try:
                client.models.list()
                break
            except openai.APIConnectionError:
                assert proxy.poll() is None, "the proxy has ended"
                time.sleep(0.5)
        messages = [{"role": "user", "content": "<q>One</q>"}]
        first = client.chat.completions.create(model="through", messages=messages)
        assert first.choices[0].message.content == "answer 1 to One"
        chunks = client.chat.completions.create(model="through", messages=messages, stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "answer 1 to One"
        response = client.responses.create(model="through", input="<q>Two</q>")
        assert response.output_text == "answer 1 to Two"
        following = client.responses.create(model="through", input="<q>Three</q>", previous_response_id=response.id)
        assert following.output_text == "answer 2 to Three"
        events = list(client.responses.create(model="through", input="<q>Four</q>", stream=True))
        assert events[-1].response.output_text == "answer 1 to Four"
    finally:
        proxy.terminate()
        proxy.wait()
