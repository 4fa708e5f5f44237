// A small chat completions server. Responses depend only on the conversation, so that all clients can run at the same time.
import { createServer } from 'node:http';

const usage = { prompt_tokens: 12, completion_tokens: 5 };

/** The response to a conversation: a text, part of one, a call of the first tool, or an error. */
function answerTo(body) {
  const last = body.messages.at(-1);
  const search = body.tools?.find((tool) => tool.function.name === 'file_search');
  if (last.role === 'tool' && search) return { text: 'Trains are preferred over planes [P1].' };
  if (search) return { call: 'file_search', pieces: ['{"queries":', '["trains"]}'] };
  if (last.role === 'tool') return { text: `It is ${last.content}.` };
  if (/be refused/.test(last.content)) return { status: 429, headers: { 'retry-after': '1' } };
  if (/be away/.test(last.content)) return { status: 503 };
  if (/break off/.test(last.content)) return { text: 'Half a', breaks: true };
  if (body.response_format?.type === 'json_schema') return { text: '{}' };
  if (body.tools && /weather/.test(last.content)) return { call: body.tools[0].function.name };
  const system = body.messages.find((m) => m.role === 'system')?.content ?? 'Nobody.';
  const earlier = body.messages.filter((m) => m.role === 'assistant').length;
  return { text: `${system.split(/[.,\n]/)[0]}: answer ${earlier + 1} to ${last.content}` };
}

function chunks({ text, call, pieces = ['{"city":', '"Bonn"}'] }) {
  const delta = (d) => ({ choices: [{ index: 0, delta: d, finish_reason: null }] });
  if (call) {
    const begin = { index: 0, id: 'call_1', type: 'function', function: { name: call, arguments: '' } };
    const rest = pieces.map((piece) => ({ index: 0, function: { arguments: piece } }));
    return [begin, ...rest].map((c) => delta({ tool_calls: [c] }));
  }
  return text.match(/[\s\S]{1,7}/g).map((content) => delta({ content }));
}

async function answer(req, res) {
  let text = '';
  for await (const piece of req) text += piece;
  const json = (status, value, headers = {}) =>
    res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
  if (req.url.endsWith('/models')) {
    return json(200, { object: 'list', data: [{ id: 'scripted-1', object: 'model' }] });
  }
  if (!req.url.endsWith('/chat/completions')) return json(404, { error: { message: 'not found' } });
  const found = answerTo(JSON.parse(text));
  if (found.status) return json(found.status, { error: { message: 'not now' } }, found.headers);
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  const reason = found.call ? 'tool_calls' : 'stop';
  const end = { choices: [{ index: 0, delta: {}, finish_reason: reason }], usage };
  const sent = found.breaks ? chunks(found) : [...chunks(found), end];
  for (const chunk of sent) res.write(`data: ${JSON.stringify(chunk)}\n\n`);
  res.end(found.breaks ? '' : 'data: [DONE]\n\n');
}

/** Starts the server on a free port. Returns its base URL and a function that stops it. */
export async function startModel() {
  const server = createServer((req, res) => void answer(req, res));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const close = () => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return { base: `http://127.0.0.1:${server.address().port}/v1`, close };
}
