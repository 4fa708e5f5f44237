// The official TypeScript SDK of MCP in the version of an alias, such as `mcp-1.12`: initializes, lists the tools, and calls two.
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { resolve } from 'node:path';

const [alias] = process.argv.slice(2);
const of = (path) =>
  import(pathToFileURL(resolve(import.meta.dirname, 'node_modules', alias, 'dist/esm/client', path)));
const { Client } = await of('index.js');
const { StreamableHTTPClientTransport } = await of('streamableHttp.js');

const headers = { authorization: `Bearer ${process.env.OPENAI_API_KEY}` };
const transport = new StreamableHTTPClientTransport(new URL(process.env.MCP_URL), {
  requestInit: { headers },
});
const client = new Client({ name: 'published', version: '1' });
await client.connect(transport);
assert.equal(client.getServerVersion().name, 'openvibe');
const { tools } = await client.listTools();
assert.ok(tools.some(({ name }) => name === 'search_messages'));
const found = await client.callTool({ name: 'list_channels', arguments: {} });
assert.match(found.content[0].text, /general/);
const wrong = await client.callTool({
  name: 'read_thread',
  arguments: { thread: 'thread_0' },
});
assert.equal(wrong.isError, true);
await client.close();
