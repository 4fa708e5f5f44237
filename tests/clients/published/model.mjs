// A small chat completions server for clients that bring their own prompts and tools. A response depends
// only on the conversation, so that all clients can run at the same time.
import { createServer } from 'node:http';

/** Arguments of the tools that the clients offer, by name. The tools of coding agents run a command. */
const COMMAND = 'echo rain';
const ARGUMENTS = {
  weather: { city: 'Bonn' },
  bash: { command: COMMAND, description: 'Looks outside' },
  shell: { command: ['bash', '-c', COMMAND] },
  shell_command: { command: COMMAND },
  exec_command: { cmd: COMMAND },
};

const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('');

/**
 * Answers `answer N to QUESTION` to the last question in `<q>` tags, or calls a tool if that question is about
 * the weather or the memory.
 */
function answerTo({ messages, tools = [] }) {
  const asked = messages.filter(({ role }) => role === 'user').map(({ content }) => textOf(content));
  const questions = asked.flatMap((text) =>
    [...text.matchAll(/<q>(.*?)<\/q>/g)].map(([, question]) => question),
  );
  const last = messages.at(-1);
  if (last.role === 'tool')
    return {
      text: `It is ${/rain/.exec(textOf(last.content))?.[0] ?? textOf(last.content)}.`,
    };
  const question = questions.at(-1) ?? 'nothing';
  const names = tools.map((tool) => tool.function.name);
  const outside = names.find((name) => ARGUMENTS[name]);
  if (outside && /weather/.test(question)) return { call: outside };
  const graph = names.find((name) => name.endsWith('read_graph'));
  if (graph && /memory/.test(question)) return { call: graph };
  return { text: `answer ${questions.length} to ${question}` };
}

function deltas({ text, call }, turn) {
  if (!call) return text.match(/[\s\S]{1,7}/g).map((content) => ({ content }));
  const begin = {
    index: 0,
    id: `call_${turn}`,
    type: 'function',
    function: { name: call, arguments: '' },
  };
  const pieces = JSON.stringify(ARGUMENTS[call] ?? {}).match(/[\s\S]{1,9}/g);
  const rest = pieces.map((piece) => ({
    index: 0,
    function: { arguments: piece },
  }));
  return [begin, ...rest].map((part) => ({ tool_calls: [part] }));
}

async function answer(req, res, requests) {
  let text = '';
  for await (const piece of req) text += piece;
  if (req.url.endsWith('/models')) {
    const data = [{ id: 'scripted-1', object: 'model' }];
    return res
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ object: 'list', data }));
  }
  if (!req.url.endsWith('/chat/completions')) return res.writeHead(404).end('{}');
  const body = JSON.parse(text);
  requests.push(body);
  const found = answerTo(body);
  const chunk = (delta, finish_reason = null) => ({
    choices: [{ index: 0, delta, finish_reason }],
  });
  const end = {
    ...chunk({}, found.call ? 'tool_calls' : 'stop'),
    usage: { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 },
  };
  const chunks = [...deltas(found, body.messages.length).map((delta) => chunk(delta)), end];
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const one of chunks) res.write(`data: ${JSON.stringify(one)}\n\n`);
  res.end('data: [DONE]\n\n');
}

/** Starts the server on a free port. Returns its base URL, the requests so far, and a function that stops it. */
export async function startModel() {
  const requests = [];
  const server = createServer((req, res) => void answer(req, res, requests));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const close = () => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return {
    base: `http://127.0.0.1:${server.address().port}/v1`,
    requests,
    close,
  };
}
