// Tests OpenVibe with OpenAI's official library for Node. The library reads the address and the key from the environment, as it does
// for its users.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const client = new OpenAI({ maxRetries: 0 });
const MODEL = 'scripted-1';
const tools = [
  {
    type: 'function',
    name: 'weather',
    description: 'How it is outside.',
    strict: true,
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
  },
];

async function plain() {
  const response = await client.responses.create({ model: MODEL, input: 'One', instructions: 'You are terse.' });
  assert.equal(response.output_text, 'You are terse: answer 1 to One');
  assert.equal(response.status, 'completed');
  assert.equal(response.model, MODEL);
  assert.equal(response.usage.total_tokens, 17);
}

async function streams() {
  const stream = await client.responses.create({ model: 'agent:vibe', input: 'Two', stream: true });
  const types = [];
  let text = '';
  for await (const event of stream) {
    assert.equal(event.sequence_number, types.length);
    types.push(event.type);
    if (event.type === 'response.output_text.delta') text += event.delta;
    if (event.type === 'response.completed') assert.equal(event.response.output[0].content[0].text, text);
  }
  assert.equal(types[0], 'response.created');
  assert.equal(types.at(-1), 'response.completed');
  assert.match(text, /^You are Vibe/);
  const final = await client.responses.stream({ model: 'agent:vibe', input: 'Two' }).finalResponse();
  assert.equal(final.output_text, text);
}

async function agents() {
  const byId = await client.responses.create({ agent_id: 'main', input: 'Three' });
  assert.match(byId.output_text, /^You are Vibe/);
  assert.equal(byId.agent_version, 1);
  const byModel = await client.responses.create({ model: 'agent:coder', input: 'Three' });
  assert.match(byModel.output_text, /^You are Coder/);
  const next = await client.responses.create({ previous_response_id: byId.id, input: 'Four' });
  assert.match(next.output_text, /answer 2 to Four$/);
  assert.equal(next.agent_id, byId.agent_id);
}

async function functions() {
  const input = [{ role: 'user', content: 'How is the weather?' }];
  const first = await client.responses.create({ model: MODEL, input, tools });
  const [call] = first.output;
  assert.equal(call.type, 'function_call');
  assert.deepEqual(JSON.parse(call.arguments), { city: 'Bonn' });
  const output = { type: 'function_call_output', call_id: call.call_id, output: 'rain' };
  const kept = await client.responses.create({
    model: MODEL,
    input: [output],
    tools,
    previous_response_id: first.id,
  });
  assert.equal(kept.output_text, 'It is rain.');
  const sent = await client.responses.create({ model: MODEL, input: [...input, ...first.output, output], tools });
  assert.equal(sent.output_text, 'It is rain.');
  let args = '';
  for await (const event of await client.responses.create({ model: MODEL, input, tools, stream: true })) {
    if (event.type === 'response.function_call_arguments.delta') args += event.delta;
    if (event.type === 'response.function_call_arguments.done') assert.equal(event.arguments, args);
  }
  assert.equal(args, call.arguments);
}

async function kept() {
  const made = await client.responses.create({ model: MODEL, input: 'Five', metadata: { n: '5' } });
  const read = await client.responses.retrieve(made.id);
  assert.deepEqual({ ...read, output_text: made.output_text }, { ...made });
  await client.responses.delete(made.id);
  await assert.rejects(client.responses.retrieve(made.id), OpenAI.NotFoundError);
}

async function inputs() {
  const made = await client.responses.create({ model: MODEL, input: 'Six' });
  const items = [];
  for await (const item of client.responses.inputItems.list(made.id)) items.push(item);
  assert.deepEqual(
    items.map((item) => [item.role, item.content[0].text]),
    [['user', 'Six']],
  );
}

async function formats() {
  const schema = { type: 'object', properties: {}, additionalProperties: false };
  const format = { type: 'json_schema', name: 'nothing', schema, strict: true };
  const response = await client.responses.create({ model: MODEL, input: 'as JSON', text: { format } });
  assert.deepEqual({ ...response.text.format, description: undefined }, { ...format, description: undefined });
  assert.equal(response.output_text, '{}');
  const completion = await client.chat.completions.create({
    model: MODEL,
    messages: [{ role: 'user', content: 'as JSON' }],
    response_format: { type: 'json_schema', json_schema: { name: 'nothing', schema, strict: true } },
  });
  assert.equal(completion.choices[0].message.content, '{}');
}

const user = (content) => [{ role: 'user', content }];
const chatTools = tools.map(({ type, ...definition }) => ({ type, function: definition }));

async function completions() {
  const messages = [{ role: 'system', content: 'You are terse.' }, ...user('One')];
  const completion = await client.chat.completions.create({ model: MODEL, messages, stop: ['END'] });
  assert.equal(completion.object, 'chat.completion');
  assert.equal(completion.model, MODEL);
  const [choice] = completion.choices;
  assert.equal(choice.message.content, 'You are terse: answer 1 to One');
  assert.equal(choice.finish_reason, 'stop');
  assert.equal(completion.usage.total_tokens, 17);
  const byModel = await client.chat.completions.create({ model: 'agent:coder', messages: user('Two') });
  assert.match(byModel.choices[0].message.content, /^You are Coder/);
}

async function chunks() {
  const stream = await client.chat.completions.create({
    model: 'agent:vibe',
    messages: user('Two'),
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let usage = null;
  const reasons = [];
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    usage = chunk.usage ?? usage;
    if (chunk.choices[0]?.finish_reason) reasons.push(chunk.choices[0].finish_reason);
  }
  assert.match(text, /^You are Vibe/);
  assert.deepEqual(reasons, ['stop']);
  assert.equal(usage.total_tokens, 17);
  const runner = client.chat.completions.stream({ model: 'agent:vibe', messages: user('Two') });
  assert.equal(await runner.finalContent(), text);
}

async function calls() {
  const messages = user('How is the weather?');
  const first = await client.chat.completions.create({ model: MODEL, messages, tools: chatTools });
  const [choice] = first.choices;
  assert.equal(choice.finish_reason, 'tool_calls');
  const [call] = choice.message.tool_calls;
  assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Bonn' });
  const result = { role: 'tool', tool_call_id: call.id, content: 'rain' };
  const second = await client.chat.completions.create({
    model: MODEL,
    messages: [...messages, choice.message, result],
    tools: chatTools,
  });
  assert.equal(second.choices[0].message.content, 'It is rain.');
  const streamed = client.chat.completions.stream({ model: MODEL, messages, tools: chatTools });
  const message = await streamed.finalMessage();
  assert.equal(message.tool_calls[0].id, call.id);
  assert.equal(message.tool_calls[0].function.arguments, call.function.arguments);
}

async function models() {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ['agent:vibe', 'agent:coder', MODEL]);
  assert.equal((await client.models.retrieve('agent:vibe')).owned_by, 'openvibe');
  await assert.rejects(client.models.retrieve('agent:nobody'), OpenAI.NotFoundError);
}

async function errors() {
  const ask = (input, more = {}) => client.responses.create({ model: MODEL, input, ...more });
  const other = (apiKey) => new OpenAI({ apiKey, maxRetries: 0 }).models.list();
  await assert.rejects(other('ov_wrong'), OpenAI.AuthenticationError);
  await assert.rejects(other(process.env.OTHER_API_KEY), OpenAI.PermissionDeniedError);
  await assert.rejects(ask('x', { agent_id: 'nobody' }), OpenAI.NotFoundError);
  await assert.rejects(ask('x', { temperature: 9 }), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.deepEqual([e.type, e.param], ['invalid_request_error', 'temperature']);
    return true;
  });
  const { response } = await ask('x', { nonsense: true }).withResponse();
  assert.equal(response.headers.get('openvibe-ignored'), 'nonsense');
  await assert.rejects(ask('be refused'), OpenAI.RateLimitError);
  await assert.rejects(ask('be refused', { stream: true }), OpenAI.RateLimitError);
  await assert.rejects(ask('be away'), OpenAI.InternalServerError);
  const complete = (content, more = {}) =>
    client.chat.completions.create({ model: MODEL, messages: user(content), ...more });
  await assert.rejects(complete('x', { n: 2 }), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.deepEqual([e.code, e.param], ['unsupported_parameter', 'n']);
    return true;
  });
  await assert.rejects(complete('x', { model: 'agent:nobody' }), OpenAI.NotFoundError);
  await assert.rejects(complete('be refused'), OpenAI.RateLimitError);
  await assert.rejects(complete('be refused', { stream: true }), OpenAI.RateLimitError);
  await assert.rejects(async () => {
    for await (const _ of await complete('break off', { stream: true }));
  }, OpenAI.APIError);
}

const parts = [plain, streams, agents, functions, kept, inputs, formats, completions, chunks, calls, models, errors];
await Promise.all(parts.map((part) => part()));
