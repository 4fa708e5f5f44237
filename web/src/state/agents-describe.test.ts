import { expect, test } from 'vitest';
import type { DraftedAgent, NewAgent } from '../api/agent-types';
import { ApiError } from '../api/problem';
import { store } from '../test/make';
import { profile } from '../test/make-agents';
import { AgentDescription } from './agents-describe.svelte';
import { AgentDraft } from './agents-draft.svelte';
import { blank } from './agents-fields';

const DRAFTED: DraftedAgent = {
  draft: {
    name: 'release-notes',
    display_name: 'Release notes',
    description: 'Drafts release notes.',
    instructions: 'You draft release notes.',
    capabilities: ['writing'],
    role: 'reviewer',
  },
  model: 'tiny',
};

/** A new agent with a description, and a server whose answer the test sets. */
function start() {
  let created: NewAgent | null = null;
  const api = {
    create(body: NewAgent) {
      created = body;
      return Promise.resolve(profile({ name: body.name }));
    },
    patch: () => Promise.reject(new Error('not used')),
  };
  const draft = new AgentDraft(api, store(), 'draft', blank());
  const asked: string[] = [];
  let reply: (drafted: DraftedAgent | ApiError) => void = () => undefined;
  const it = new AgentDescription(
    {
      draft(description) {
        asked.push(description);
        return new Promise((done, fail) => {
          reply = (drafted) => (drafted instanceof ApiError ? fail(drafted) : done(drafted));
        });
      },
    },
    draft,
  );
  return {
    it,
    draft,
    asked,
    reply: (drafted: DraftedAgent | ApiError) => reply(drafted),
    created: () => created,
  };
}

test('a draft fills the fields, which are created as they are shown', async () => {
  const { it, draft, asked, reply, created } = start();
  draft.set('model', 'huge');
  it.text = '  Drafts release notes ';
  const run = it.run();
  expect([it.busy, asked]).toEqual([true, ['Drafts release notes']]);
  const { round } = draft;
  reply(DRAFTED);
  expect(await run).toBe(true);
  expect([it.busy, it.model, draft.round]).toEqual([false, 'tiny', round + 1]);
  await draft.save();
  const { name, display_name, description, instructions, capabilities } = DRAFTED.draft;
  expect(created()).toEqual({
    name,
    display_name,
    description,
    instructions,
    capabilities,
    model: 'huge',
  });
});

test('Undo restores the filled fields, and no others', async () => {
  const { it, draft, reply } = start();
  draft.set('instructions', 'Mine.');
  it.text = 'Drafts release notes';
  const run = it.run();
  draft.set('description', 'Typed meanwhile');
  reply(DRAFTED);
  await run;
  draft.set('model', 'typed afterwards');
  it.undo();
  expect(draft.fields).toMatchObject({
    instructions: 'Mine.',
    description: 'Typed meanwhile',
    name: '',
    model: 'typed afterwards',
  });
  expect([it.model, draft.fields.capabilities]).toEqual(['', []]);
});

test('a failure keeps the fields and the description', async () => {
  const { it, draft, reply } = start();
  it.text = 'Drafts release notes';
  const run = it.run();
  const error = { code: 'model_unavailable', message: 'the model did not draft a usable agent' };
  reply(new ApiError(503, { error }, ''));
  expect(await run).toBe(false);
  expect([it.problem, it.text, it.busy, draft.dirty]).toEqual([
    'The model did not draft a usable agent',
    'Drafts release notes',
    false,
    false,
  ]);
});

test('no request is sent without a description or twice, and a page that was left is unchanged', async () => {
  const { it, draft, asked, reply } = start();
  it.text = ' ';
  expect(await it.run()).toBe(false);
  it.text = 'Drafts release notes';
  const run = it.run();
  expect(await it.run()).toBe(false);
  expect(asked).toHaveLength(1);
  it.stop();
  reply(DRAFTED);
  expect(await run).toBe(false);
  expect([draft.dirty, it.problem]).toEqual([false, '']);
});
