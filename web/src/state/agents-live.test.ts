import { expect, test } from 'vitest';
import type { PreviewForm, AgentPreview, ResponseEvent, ResponseRequest } from '../api/agent-types';
import { ApiError } from '../api/problem';
import { agent, snapshot } from '../test/make';
import { preview, profile } from '../test/make-agents';
import { AgentList } from './agents-list.svelte';
import { fieldsOf } from './agents-fields';
import { Preview } from './agents-preview.svelte';
import { TryIt } from './agents-try.svelte';
import { People } from './people.svelte';

const settle = () => new Promise((r) => setTimeout(r));

// --- preview ---

/** Timer that fires only on `ring`. */
function clock() {
  let due: (() => void) | null = null;
  return {
    set: (run: () => void) => (due = run),
    clear: () => (due = null),
    ring: () => due?.(),
    waits: () => due !== null,
  };
}
test('the preview is requested when typing pauses, and the latest response wins', async () => {
  const asked: { body: PreviewForm; answer: (p: AgentPreview) => void }[] = [];
  const time = clock();
  const it = new Preview(
    { preview: (body) => new Promise((answer) => asked.push({ body, answer })) },
    'chan_1',
    time,
  );
  const fields = fieldsOf(profile());
  for (const text of ['You', 'You a', 'You are']) it.follow(null, { ...fields, instructions: text });
  expect(asked).toHaveLength(0);
  time.ring();
  expect(asked.map((a) => a.body.agent.instructions)).toEqual(['You are']);
  expect(asked[0]!.body.channel_id).toBe('chan_1');
  it.follow(null, { ...fields, instructions: 'You are Quill' });
  time.ring();
  asked[1]!.answer(preview({ system: 'new' }));
  asked[0]!.answer(preview({ system: 'old' }));
  await settle();
  expect(it.now?.system).toBe('new');
  time.clear();
  it.follow(null, { ...fields, instructions: 'You are Quill' });
  expect(time.waits()).toBe(false);
});
test('a failed preview shows the reason, and without instructions there is none', async () => {
  const time = clock();
  const fail = () => Promise.reject(new ApiError(422, { error: { message: 'Too deep.' } }, ''));
  const it = new Preview({ preview: fail }, null, time);
  it.follow(null, fieldsOf(profile()));
  time.ring();
  await settle();
  expect(it).toMatchObject({ problem: 'Too deep.', waiting: false });
  it.follow(null, { ...fieldsOf(profile()), instructions: ' ' });
  expect(it).toMatchObject({ problem: '', now: null, waiting: false });
});

// --- try it ---

function talk(script: (r: ResponseRequest, signal: AbortSignal) => AsyncGenerator<ResponseEvent>) {
  const asked: ResponseRequest[] = [];
  const respond = (r: ResponseRequest, signal: AbortSignal) => {
    asked.push(r);
    return script(r, signal);
  };
  return { asked, it: new TryIt({ respond }, () => Promise.resolve(preview({ temperature: 0 }))) };
}
const delta = (text: string): ResponseEvent => ({ type: 'response.output_text.delta', delta: text });
const done = {
  type: 'response.completed' as const,
  response: {
    model: 'scripted-1',
    error: null,
    usage: {
      input_tokens: 12,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 15,
    },
  },
};
test('a test conversation sends the whole draft and the earlier lines', async () => {
  const { asked, it } = talk(async function* () {
    yield delta('Hel');
    yield delta('lo');
    yield done;
  });
  await it.send('Hi ');
  expect(it.lines.map((l) => [l.role, l.content, l.state])).toEqual([
    ['user', 'Hi', 'done'],
    ['assistant', 'Hello', 'done'],
  ]);
  expect(it.lines[1]).toMatchObject({ model: 'scripted-1', usage: { output_tokens: 3 } });
  expect(it.noModel).toBe(false);
  await it.send('More');
  expect(asked[1]).toEqual({
    instructions: 'You are Quill.',
    model: 'scripted-1',
    max_output_tokens: 4096,
    temperature: 0,
    store: false,
    input: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'More' },
    ],
  });
  it.clear();
  expect(it.lines).toEqual([]);
});
test('Stop keeps the text so far and drops the rest', async () => {
  let cut = false;
  const { it } = talk(async function* (_, signal) {
    yield delta('Half');
    await new Promise((_done, fail) => signal.addEventListener('abort', () => fail(new Error('aborted'))));
    cut = true;
  });
  const going = it.send('Hi');
  while (it.lines[1]?.content !== 'Half') await settle();
  expect(it.writing).toBe(true);
  it.stop();
  await going;
  expect(it.lines[1]).toMatchObject({ content: 'Half', state: 'stopped' });
  expect(cut).toBe(false);
});
test('a failure is shown, and is not sent later', async () => {
  let refuse = true;
  const { asked, it } = talk(async function* () {
    if (refuse) throw new ApiError(503, { error: { message: 'The model is away.' } }, '');
    yield delta('Yes');
  });
  await it.send('Hi');
  expect(it.lines[1]).toMatchObject({ state: 'failed', problem: 'The model is away.' });
  refuse = false;
  await it.send('And now?');
  expect(asked[1]!.input).toMatchObject([{ content: 'Hi' }, { content: 'And now?' }]);
});

test('a missing language model is reported', async () => {
  const { it } = talk(async function* () {
    yield delta('I can look things up.');
    yield { ...done, response: { ...done.response, model: 'builtin' } };
  });
  await it.send('Hi');
  expect(it.noModel).toBe(true);
});

// --- the list ---

const people = () => {
  const p = new People();
  p.load(snapshot());
  return p;
};
test('the list contains the loaded agents and later events', async () => {
  const who = people();
  const old = { ...agent('agent_old', 'old', 'Old'), status: 'archived' as const };
  const read = [...snapshot().agents, old, { ...agent('agent_a', 'a', 'Ada’s own'), is_default: true }];
  const list = new AgentList({ all: () => Promise.resolve(read) }, who);
  await list.load();
  expect(list.shown.map((a) => a.name)).toEqual(['a', 'coder', 'vibe']);
  who.agentsById.set('agent_vibe', {
    ...agent('agent_vibe', 'vibe', 'Vibe'),
    status: 'inactive',
    version: 2,
  });
  list.filter = 'inactive';
  expect(list.shown.map((a) => a.name)).toEqual(['vibe']);
  expect(list.counts).toEqual({ 'in-use': 3, active: 2, inactive: 1, archived: 1 });
  list.filter = 'in-use';
  list.text = '@cod';
  expect(list.shown.map((a) => a.name)).toEqual(['coder']);
  list.forget('agent_coder');
  expect(list.shown).toEqual([]);
});
test('a base must not be a descendant or add a fourth level', async () => {
  const chain = [
    agent('g', 'g', 'G'),
    { ...agent('p', 'p', 'P'), base_profile_id: 'g' },
    { ...agent('c', 'c', 'C'), base_profile_id: 'p' },
    agent('x', 'x', 'X'),
  ];
  const who = new People();
  const list = new AgentList({ all: () => Promise.resolve(chain) }, who);
  await list.load();
  const bases = (id: string | null) => list.basesFor(id).map((a) => a.id);
  expect(bases(null)).toEqual(['g', 'p', 'x']);
  expect(bases('g')).toEqual([]);
  expect(bases('p')).toEqual(['g', 'x']);
  expect(bases('x')).toEqual(['g', 'p']);
});

// --- access ---

test('denials win, an empty list means everyone, and viewers cannot use agents', () => {
  const who = people();
  const lists = (allowed_subjects: string[], denied_subjects: string[]) => ({
    ...agent('agent_1', 'a', 'A'),
    access_control: { allowed_subjects, denied_subjects },
  });
  expect(who.canInvoke(agent('agent_1', 'a', 'A'))).toBe(true);
  expect(who.canInvoke(lists([], []))).toBe(true);
  expect(who.canInvoke(lists(['user_bo'], []))).toBe(false);
  expect(who.canInvoke(lists(['role:member'], []))).toBe(true);
  expect(who.canInvoke(lists(['role:member'], ['user_me']))).toBe(false);
  expect(who.canInvoke({ ...agent('agent_1', 'a', 'A'), status: 'inactive' })).toBe(false);
  who.me = { ...who.me, role: 'viewer' };
  expect(who.canInvoke(agent('agent_1', 'a', 'A'))).toBe(false);
});
