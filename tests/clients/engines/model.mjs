// A scripted model behind four APIs: Chat Completions, Responses, Anthropic's Messages, and Gemini's. The last `script:NAME` in the
// conversation names the script; each result of a tool leads to its next step. The steps are translated into the tools that the
// agent offers.
import { createServer } from 'node:http';

const WORK = '/work';

const textOf = (content) =>
  typeof content === 'string'
    ? content
    : (content ?? []).map((part) => part.text ?? textOf(part.content)).join('');
const user = (text) => ({ text, isResult: false });
const result = (text) => ({ text, isResult: true });

/** Texts of people and results of tools in a request, and the tools that it offers. */
const READERS = {
  chat: ({ messages, tools = [] }) => ({
    items: messages.flatMap(({ role, content }) => {
      if (role === 'tool') return [result(textOf(content))];
      return role === 'user' ? [user(textOf(content))] : [];
    }),
    tools: tools.map((tool) => tool.function.name),
  }),
  responses: ({ input, tools = [] }) => ({
    items: input.flatMap(({ type, role, content, output }) => {
      if (type?.endsWith('_output')) return [result(textOf(output))];
      return role === 'user' ? [user(textOf(content))] : [];
    }),
    // Codex lists them as a part of the input.
    tools: [...tools, ...input.flatMap((item) => item.tools ?? [])].flatMap((tool) =>
      (tool.tools ?? [tool]).map(({ name }) => name),
    ),
  }),
  messages: ({ messages, tools = [] }) => ({
    items: messages
      .filter(({ role }) => role === 'user')
      .flatMap(({ content }) => (typeof content === 'string' ? [{ text: content }] : content))
      .map((part) => (part.type === 'tool_result' ? result(textOf(part.content)) : user(part.text ?? ''))),
    tools: tools.map(({ name }) => name),
  }),
  gemini: ({ contents, tools = [] }) => ({
    items: contents
      .filter(({ role }) => role === 'user')
      .flatMap(({ parts }) => parts)
      .map((part) =>
        part.functionResponse ? result(JSON.stringify(part.functionResponse)) : user(part.text ?? ''),
      ),
    tools: tools.flatMap((tool) => tool.functionDeclarations ?? []).map(({ name }) => name),
  }),
};

/** Arguments of the agents' tools for a command, an edit, a plan, and a call of a tool of OpenVibe. */
const path = (name) => `${WORK}/${name}`;
const patch = ({ file, before, after }) =>
  `*** Begin Patch\n*** Update File: ${file}\n@@\n-${before}\n+${after}\n*** End Patch\n`;
const script = (call) => `text(await tools.${call});`;
const CALLS = {
  run: {
    bash: (command) => ({ command, description: 'Runs it' }),
    Bash: (command) => ({ command, description: 'Runs it' }),
    run_shell_command: (command) => ({ command, description: 'Runs it' }),
    exec: (cmd) => script(`exec_command(${JSON.stringify({ cmd })})`),
  },
  edit: {
    edit: ({ file, before, after }) => ({ filePath: path(file), oldString: before, newString: after }),
    Edit: ({ file, before, after }) => ({ file_path: path(file), old_string: before, new_string: after }),
    replace: ({ file, before, after }) => ({
      file_path: path(file),
      instruction: 'Change it',
      old_string: before,
      new_string: after,
    }),
    exec: (change) => script(`apply_patch(${JSON.stringify(patch(change))})`),
  },
  read: {
    read: (file) => ({ filePath: path(file) }),
    Read: (file) => ({ file_path: path(file) }),
    read_file: (file) => ({ file_path: path(file) }),
    exec: (file) => script(`exec_command(${JSON.stringify({ cmd: `cat ${file}` })})`),
  },
  plan: {
    todowrite: (steps) => ({
      todos: steps.map((content) => ({ content, status: 'pending', priority: 'medium' })),
    }),
  },
};

/** The same of the built-in agent, which alone offers `run`. */
const BUILTIN_CALLS = {
  run: { run: (command) => ({ command }) },
  edit: { edit: ({ file, before, after }) => ({ path: file, old: before, new: after }) },
  read: { read_file: (file) => ({ path: file }) },
  plan: { plan: (steps) => ({ steps }) },
};

/** The answer to a request: a text, a call of a tool, or nothing for ever. */
function answerTo({ items, tools }, scripts) {
  let steps = [];
  let done = 0;
  for (const { text, isResult } of items) {
    const name = [...text.matchAll(/script:(\w+)/g)].at(-1)?.[1];
    if (!isResult && scripts[name]) [steps, done] = [scripts[name], 0];
    else if (isResult) done++;
  }
  // Titles and choices of a model.
  if (!tools.length) return { text: 'A title' };
  const calls = tools.includes('run') ? BUILTIN_CALLS : CALLS;
  // Not all agents have a tool for plans.
  const answers = steps.map((step) => {
    const [[action, value]] = Object.entries(step);
    if (action === 'say') return { text: value };
    if (action === 'wait') return { waits: true };
    const found = Object.entries(calls[action]).find(([name]) => tools.includes(name));
    return found && { call: { name: found[0], input: found[1](value) } };
  });
  return answers.filter(Boolean)[done] ?? { text: 'There is nothing to do' };
}

/** A value for a JSON schema, with which Gemini CLI chooses a model. */
function valueOf({ type, enum: values, properties = {} }) {
  if (values) return values[0];
  const name = type?.toLowerCase();
  if (name === 'object')
    return Object.fromEntries(Object.entries(properties).map(([key, schema]) => [key, valueOf(schema)]));
  return name === 'number' || name === 'integer' ? 50 : 'none';
}

const event = (type, data) => ({ type, data: { type, ...data } });

/** Events, or the whole body, of a response. */
const WRITERS = {
  chat({ stream }, { text, call }, id) {
    const calls = call && [
      {
        index: 0,
        id,
        type: 'function',
        function: { name: call.name, arguments: JSON.stringify(call.input) },
      },
    ];
    const message = { role: 'assistant', content: text ?? null, tool_calls: calls };
    const finish_reason = call ? 'tool_calls' : 'stop';
    const usage = { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 };
    if (!stream) return { choices: [{ index: 0, message, finish_reason }], usage };
    return [
      { data: { choices: [{ index: 0, delta: message, finish_reason: null }] } },
      { data: { choices: [{ index: 0, delta: {}, finish_reason }], usage } },
    ];
  },
  responses(_, { text, call }, id) {
    const usage = {
      input_tokens: 12,
      output_tokens: 5,
      total_tokens: 17,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    };
    const item = call
      ? { type: 'custom_tool_call', id, call_id: id, namespace: 'functions', status: 'completed', ...call }
      : { type: 'message', id, role: 'assistant', content: [{ type: 'output_text', text, annotations: [] }] };
    const response = { id: `resp_${id}`, object: 'response', status: 'completed', output: [item], usage };
    return [
      event('response.created', { response: { ...response, status: 'in_progress', output: [] } }),
      event('response.output_item.added', { output_index: 0, item: call ? item : { ...item, content: [] } }),
      ...(call
        ? []
        : [
            event('response.output_text.delta', {
              item_id: id,
              output_index: 0,
              content_index: 0,
              delta: text,
            }),
          ]),
      event('response.output_item.done', { output_index: 0, item }),
      event('response.completed', { response }),
    ];
  },
  messages({ stream, model }, { text, call }, id) {
    const usage = { input_tokens: 12, output_tokens: 5 };
    const content = call ? { type: 'tool_use', id, ...call } : { type: 'text', text };
    const stop_reason = call ? 'tool_use' : 'end_turn';
    const message = { id: `msg_${id}`, type: 'message', role: 'assistant', model, usage };
    if (!stream) return { ...message, content: [content], stop_reason };
    const delta = call
      ? { type: 'input_json_delta', partial_json: JSON.stringify(call.input) }
      : { type: 'text_delta', text };
    return [
      event('message_start', { message: { ...message, content: [] } }),
      event('content_block_start', {
        index: 0,
        content_block: call ? { ...content, input: {} } : { type: 'text', text: '' },
      }),
      event('content_block_delta', { index: 0, delta }),
      event('content_block_stop', { index: 0 }),
      event('message_delta', { delta: { stop_reason }, usage }),
      event('message_stop', {}),
    ];
  },
  gemini({ generationConfig, stream }, { text, call }) {
    const schema = generationConfig?.responseJsonSchema ?? generationConfig?.responseSchema;
    const part = call
      ? { functionCall: { name: call.name, args: call.input } }
      : { text: schema ? JSON.stringify(valueOf(schema)) : text };
    const body = {
      candidates: [{ index: 0, content: { role: 'model', parts: [part] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 5, totalTokenCount: 17 },
    };
    return stream ? [{ data: body }] : body;
  },
};

const KINDS = [
  [/\/chat\/completions$/, 'chat'],
  [/\/responses$/, 'responses'],
  [/\/v1\/messages$/, 'messages'],
  [/enerateContent$/, 'gemini'],
];

/** Starts the server on a free port. `requests` gets the path, headers, answer, and number of results of each request. */
export async function startModel(scripts) {
  const requests = [];
  const server = createServer((req, res) => {
    void (async () => {
      let text = '';
      for await (const piece of req) text += piece;
      const { pathname } = new URL(req.url, 'http://model');
      const kind = KINDS.find(([pattern]) => pattern.test(pathname))?.[1];
      const json = { 'content-type': 'application/json' };
      if (!kind) {
        requests.push({ path: pathname, headers: req.headers, results: 0 });
        return res.writeHead(404, json).end('{"error": {"message": "unknown"}}');
      }
      const body = JSON.parse(text);
      body.stream ??= /stream/.test(pathname);
      const request = READERS[kind](body);
      const answer = answerTo(request, scripts);
      const results = request.items.filter(({ isResult }) => isResult).length;
      requests.push({ path: pathname, headers: req.headers, results, answer });
      if (answer.waits) return;
      const written = WRITERS[kind](body, answer, `call_${requests.length}`);
      if (!Array.isArray(written)) return res.writeHead(200, json).end(JSON.stringify(written));
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const { type, data } of written)
        res.write(`${type ? `event: ${type}\n` : ''}data: ${JSON.stringify(data)}\n\n`);
      res.end(kind === 'chat' ? 'data: [DONE]\n\n' : '');
    })();
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const close = () => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return { base: `http://127.0.0.1:${server.address().port}`, requests, close };
}
