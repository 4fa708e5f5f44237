// opencode, which uses the Chat Completions API: two turns of a session, and a command that the model runs on the client.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { run } from './program.mjs';

const home = await mkdtemp(join(tmpdir(), 'openvibe-opencode-'));
try {
  const provider = {
    npm: '@ai-sdk/openai-compatible',
    name: 'OpenVibe',
    options: {
      baseURL: process.env.OPENAI_BASE_URL,
      apiKey: process.env.OPENAI_API_KEY,
    },
    models: {
      'scripted-1': {
        name: 'Scripted',
        tool_call: true,
        limit: { context: 32_000, output: 4_000 },
      },
    },
  };
  const config = {
    provider: { openvibe: provider },
    autoupdate: false,
    share: 'disabled',
    permission: 'allow',
  };
  await writeFile(join(home, 'opencode.json'), JSON.stringify(config));
  const opencode = (...args) =>
    run('opencode', ['run', '-m', 'openvibe/scripted-1', ...args], {
      cwd: home,
      env: {
        HOME: home,
        OPENCODE_DISABLE_MODELS_FETCH: 'true',
        OPENCODE_DISABLE_AUTOUPDATE: 'true',
      },
    });

  assert.match(await opencode('<q>One</q>'), /answer 1 to One/);
  assert.match(await opencode('--continue', '<q>Two</q>'), /answer 2 to Two/);
  assert.match(await opencode('<q>How is the weather?</q>'), /It is rain\./);
} finally {
  await rm(home, { recursive: true, force: true });
}
