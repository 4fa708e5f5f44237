import { expect, test } from 'vitest';
import { Conflict } from '../api/problem';
import type { RegisteredTool, ToolsApi } from '../api/tools';
import { SecretEntry } from './secret-entry.svelte';

const stored = (x: Partial<RegisteredTool> = {}): RegisteredTool => ({
  id: 'tool_1',
  object: 'tool',
  kind: 'mcp',
  name: 'jira',
  title: 'Jira',
  enabled: true,
  config: { url: 'https://mcp.example.com/', auth: 'bearer' },
  secret_set: false,
  channel_ids: null,
  trusted_reads: false,
  status: 'ok',
  functions: [],
  rejected: [],
  used_by: [],
  version: 1,
  ...x,
});

test('a secret is stored for the settings that were shown when its entry began', async () => {
  let tool = stored();
  const sent: [number, string][] = [];
  const putSecret = (_: string, version: number, value: string) => {
    sent.push([version, value]);
    const conflict = new Conflict({ error: { code: 'version_conflict', current: tool } }, '');
    return version === tool.version ? Promise.resolve() : Promise.reject(conflict);
  };
  const api = { putSecret } as unknown as ToolsApi;
  const entry = new SecretEntry(() => tool);
  entry.value = 's';
  tool = stored({ version: 2, config: { url: 'https://elsewhere.example.com/', auth: 'bearer' } });
  entry.value = 'sk';
  await expect(entry.store(api)).rejects.toBeInstanceOf(Conflict);
  expect(entry.value).toBe('sk');
  await entry.store(api);
  expect(sent).toEqual([
    [1, 'sk'],
    [2, 'sk'],
  ]);
  expect(entry.value).toBe('');
});
test('a server with authentication has a field for its secret', () => {
  expect(new SecretEntry(() => stored()).isUsed).toBe(true);
  const open = stored({ config: { url: 'https://mcp.example.com/', auth: 'none' } });
  expect(new SecretEntry(() => open).isUsed).toBe(false);
  expect(new SecretEntry(() => stored({ config: { stdio: 'files' } })).isUsed).toBe(false);
});
