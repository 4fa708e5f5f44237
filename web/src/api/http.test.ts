import { expect, test } from 'vitest';
import { AgentsApi } from './agents';
import { Api } from './api';
import { ApiError, Conflict, Unreachable } from './problem';

/** A client whose server returns this response, and the requests that the server received. */
function client(answer: () => Response = () => Response.json({ data: [], has_more: false })) {
  const requests: Request[] = [];
  const fetch = (request: Request) => {
    requests.push(request);
    return Promise.resolve().then(answer);
  };
  return { api: new Api({ fetch, base: 'http://x' }).in('ws_1'), requests };
}

test('requests carry the workspace and encode their parameters', async () => {
  const { api, requests } = client();
  await api.messages('a/b', { around: 'msg 1' });
  expect(requests[0]!.url).toBe('http://x/v1/threads/a%2Fb/messages?limit=50&around=msg%201');
  expect(requests[0]!.headers.get('x-workspace-id')).toBe('ws_1');
});
test('the slashes of an agent file are part of the address', async () => {
  const { api, requests } = client(() => Response.json({}));
  await api.part(AgentsApi).putFile('agent_1', 'memory/a b.md', 'x', 3);
  expect(requests[0]!.url).toBe('http://x/v1/agents/agent_1/files/memory/a%20b.md');
  expect(requests[0]!.headers.get('if-match')).toBe('"3"');
});
test('a change of an outdated version fails with the current object', async () => {
  const current = { revision: 4 };
  const body = { error: { code: 'stale', message: 'it changed', current } };
  const { api } = client(() => Response.json(body, { status: 409 }));
  const failed = await api.patchResolution('fork_1', 3, {}).catch((e: unknown) => e);
  expect(failed).toBeInstanceOf(Conflict);
  expect(failed).toMatchObject({ status: 409, code: 'stale', current });
});
test('errors carry the message of the server and the time to wait', async () => {
  const headers = { 'retry-after': '7' };
  const body = { error: { code: 'slow_down', message: 'wait 7 seconds' } };
  const { api } = client(() => Response.json(body, { status: 429, headers }));
  const failed = await api.me().catch((e: unknown) => e);
  expect(failed).toBeInstanceOf(ApiError);
  expect(failed).toMatchObject({ status: 429, code: 'slow_down', message: 'wait 7 seconds', retryAfterS: 7 });
});
test('an answer of a proxy is an error with its status', async () => {
  const { api } = client(() => new Response('<h1>Bad gateway</h1>', { status: 502 }));
  await expect(api.me()).rejects.toMatchObject({ status: 502, code: null });
});
test('without a response, the server is unreachable', async () => {
  const { api } = client(() => {
    throw new TypeError('Failed to fetch');
  });
  await expect(api.me()).rejects.toBeInstanceOf(Unreachable);
});
test('an empty response is accepted', async () => {
  const { api } = client(() => new Response(null, { status: 204 }));
  await expect(api.signOut()).resolves.toBeUndefined();
});
test('a proxy that refuses the size of a file is named', async () => {
  const refused = () => new Response('<html>413 Request Entity Too Large</html>', { status: 413 });
  await expect(client(refused).api.snapshot()).rejects.toThrow(
    'A proxy refuses files of this size: an admin can raise its limit.',
  );
});
