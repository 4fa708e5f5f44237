// A small MCP server (2025-11-25) whose functions a test sets.
import { createServer } from 'node:http';

/** A function without arguments. */
export const fn = (name, description, annotations) => ({
  name,
  description,
  inputSchema: { type: 'object' },
  ...(annotations ? { annotations } : {}),
});

export class ToolServer {
  #server = null;
  /** What `tools/list` returns. */
  tools = [];
  /** Parameters of `tools/call`, in order. */
  calls = [];
  /** Values of `Authorization`, in order. */
  credentials = [];
  /** Required `Authorization` value; any other value is rejected. Null accepts every request. */
  required = null;
  /** Title in its description of itself. */
  title = undefined;
  /** True if it only signs people in with OAuth. */
  oauth = false;
  url = '';

  async start() {
    this.#server = createServer((req, res) => void this.#answer(req, res));
    await new Promise((done, fail) => {
      this.#server.once('error', fail);
      this.#server.listen(0, '127.0.0.1', done);
    });
    this.url = `http://127.0.0.1:${this.#server.address().port}/mcp`;
    return this;
  }
  async close() {
    this.#server.closeAllConnections();
    await new Promise((r) => this.#server.close(r));
  }

  async #answer(req, res) {
    let text = '';
    for await (const chunk of req) text += chunk;
    const given = req.headers.authorization ?? null;
    this.credentials.push(given);
    if (this.oauth) {
      const challenge = 'Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"';
      return res.writeHead(401, { 'www-authenticate': challenge }).end();
    }
    if (this.required && given !== this.required) return res.writeHead(401).end('This key is unknown');
    const { id, method, params } = text ? JSON.parse(text) : {};
    if (id === undefined) return res.writeHead(202).end();
    if (method === 'tools/call') this.calls.push(params);
    const result = {
      initialize: {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'scripted', version: '1', title: this.title },
      },
      'tools/list': { tools: this.tools },
      'tools/call': { content: [{ type: 'text', text: 'Created ABC-1' }] },
    }[method];
    const error = { code: -32601, message: 'Method not found' };
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }));
  }
}
