// Codex CLI, which uses the Responses API: two turns of a session, a command that the model runs on the client, and a tool of an MCP
// server, which Codex offers in a namespace.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { run } from './program.mjs';

const home = await mkdtemp(join(tmpdir(), 'openvibe-codex-'));
try {
  await writeFile(
    join(home, 'config.toml'),
    `model = "scripted-1"
model_provider = "openvibe"

[model_providers.openvibe]
name = "OpenVibe"
base_url = ${JSON.stringify(process.env.OPENAI_BASE_URL)}
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[mcp_servers.memory]
command = "node"
args = [${JSON.stringify(join(import.meta.dirname, 'node_modules/@modelcontextprotocol/server-memory/dist/index.js'))}]
`,
  );
  const options = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '--json'];
  const codex = async (...args) => {
    const out = await run('codex', args, {
      cwd: home,
      env: { CODEX_HOME: home },
    });
    const events = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    return events.flatMap(({ type, item }) => (type === 'item.completed' ? [item] : []));
  };
  const texts = (items) => items.flatMap(({ type, text }) => (type === 'agent_message' ? [text] : []));

  assert.deepEqual(texts(await codex('exec', ...options, '<q>One</q>')), ['answer 1 to One']);
  assert.deepEqual(texts(await codex('exec', 'resume', '--last', ...options, '<q>Two</q>')), [
    'answer 2 to Two',
  ]);
  const items = await codex('exec', ...options, '<q>How is the weather?</q>');
  const command = items.find(({ type }) => type === 'command_execution');
  assert.match(command.aggregated_output, /rain/);
  assert.deepEqual(texts(items), ['It is rain.']);
  const called = await codex('exec', ...options, '<q>What is in your memory?</q>');
  const tool = called.find(({ type }) => type === 'mcp_tool_call');
  assert.deepEqual([tool?.server, tool?.tool, tool?.status], ['memory', 'read_graph', 'completed']);
  assert.match(texts(called)[0], /entities/);
} finally {
  await rm(home, { recursive: true, force: true });
}
