// The official library for Node against OpenVibe. It reads its address and key from the environment, as its users do.
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
  await assert.rejects(ask('x', { nonsense: true }), OpenAI.BadRequestError);
  await assert.rejects(ask('be refused'), OpenAI.RateLimitError);
  await assert.rejects(ask('be refused', { stream: true }), OpenAI.RateLimitError);
  await assert.rejects(ask('be away'), OpenAI.InternalServerError);
}

await Promise.all([plain, streams, agents, functions, kept, models, errors].map((part) => part()));
