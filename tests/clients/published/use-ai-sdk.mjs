// AI SDK with both of its providers for OpenAI's APIs.
import assert from 'node:assert/strict';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

const MODEL = 'scripted-1';
const [baseURL, apiKey] = [process.env.OPENAI_BASE_URL, process.env.OPENAI_API_KEY];
const openai = createOpenAI({ baseURL, apiKey });
const compatible = createOpenAICompatible({
  name: 'openvibe',
  baseURL,
  apiKey,
});
const inputSchema = jsonSchema({
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
});
const weather = tool({
  description: 'How it is outside.',
  inputSchema,
  execute: ({ city }) => `rain in ${city}`,
});

for (const [name, model] of [
  ['responses', openai.responses(MODEL)],
  ['chat', openai.chat(MODEL)],
  ['compatible', compatible(MODEL)],
  ['agent', openai.responses('agent:vibe')],
]) {
  const first = await generateText({
    model,
    system: 'You are terse.',
    prompt: '<q>One</q>',
  });
  assert.equal(first.text, 'answer 1 to One', name);

  const streamed = streamText({ model, prompt: '<q>Two</q>' });
  let text = '';
  for await (const piece of streamed.textStream) text += piece;
  assert.equal(text, 'answer 1 to Two', name);
  if (name === 'agent') continue;

  const messages = [{ role: 'user', content: '<q>How is the weather?</q>' }];
  const options = { model, tools: { weather }, stopWhen: stepCountIs(3) };
  const asked = await generateText({ ...options, messages });
  assert.equal(asked.text, 'It is rain.', name);
  messages.push(...asked.response.messages, {
    role: 'user',
    content: '<q>Three</q>',
  });
  const second = streamText({ ...options, messages });
  assert.equal(await second.text, 'answer 2 to Three', name);
}
