// A tool server over standard input and output. Its function asks the user for input, even if the client does not support this.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import {
  CallToolRequestSchema,
  ElicitResultSchema,
  ListToolsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';

const server = new Server({ name: 'asking', version: '1' }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: [{ name: 'sign_in', description: 'Signs in', inputSchema: { type: 'object' } }],
}));
server.setRequestHandler(CallToolRequestSchema, async (_request, { sendRequest }) => {
  const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
  const params = { message: 'Your name?', requestedSchema };
  const { action } = await sendRequest({ method: 'elicitation/create', params }, ElicitResultSchema);
  return { content: [{ type: 'text', text: action }] };
});
await server.connect(new StdioServerTransport());
