import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Api } from '../api/api';
import type { OutcomeEvent } from '../api/events';
import type { Resolution, ResolutionAction, ResolutionEdit, Task } from '../api/types';
import { NOTHING } from '../lib/resolution';
import { AT, Browser, message, store, task } from '../test/make';
import { fork, result } from '../test/make-results';
import { Drafting } from './drafting.svelte';
import { isStoredEdit, storedEditIn } from './edit-storage';

/** In-memory server for the draft of one fork, with the API rules that the editor relies on. */
class Backend {
  draft: Resolution | null = null;
  task = task({ id: 'task_r', kind: 'resolve', status: 'running', fork_id: 'fork_1' });
  calls: string[] = [];
  bodies: Record<string, unknown>[] = [];
  down = false;
  author = 'user_me';

  fetch = async (request: Request): Promise<Response> => {
    if (this.down) throw new TypeError('no network');
    const path = new URL(request.url).pathname.split('/').slice(-1)[0]!;
    const call = `${request.method} ${path}`;
    this.calls.push(call);
    const text = await request.text();
    const body = text ? (JSON.parse(text) as Record<string, unknown>) : {};
    this.bodies.push(body);
    const tag = Number(/\d+/.exec(request.headers.get('if-match') ?? '')?.[0] ?? NaN);
    switch (call) {
      case 'POST resolve':
        if (this.draft?.edited_by.length && !body.replace_draft) return refusal(409, 'draft_edited');
        return Response.json({ fork: fork(), task: this.task }, { status: 202 });
      case 'GET resolution':
        return this.draft ? this.#tagged(this.draft) : refusal(404, 'no_resolution');
      case 'PATCH resolution':
        return this.#edit(tag, body as ResolutionEdit);
      case 'POST cancel':
        this.task = { ...this.task, status: 'cancelled' };
        return Response.json(this.task);
      case 'POST publish':
        if (this.draft && !Number.isNaN(tag) && tag !== this.draft.revision) return this.#conflict();
        this.draft = result({ ...this.draft, ...(body.resolution as object), status: 'published' });
        return Response.json({
          fork: fork({ status: 'resolved' }),
          message: message({
            id: 'msg_card',
            kind: 'resolution',
            author: { type: 'human', id: this.author, name: 'X', avatar_url: null },
          }),
          resolution: this.draft,
        });
    }
    throw new Error(`unexpected ${call}`);
  };
  #edit(tag: number, body: ResolutionEdit): Response {
    if (tag !== (this.draft?.revision ?? 0)) return this.#conflict();
    this.change('user_me', body);
    return this.#tagged(this.draft!);
  }
  /** Saves as another person. */
  change(user: string, body: ResolutionEdit): Resolution {
    const old =
      this.draft ??
      result({
        headline: '',
        conclusion: '',
        key_points: [],
        action_items: [],
        revision: 0,
        generated_by: null,
      });
    const items = (body.action_items ?? old.action_items).map(
      (a, i) => ({ id: `item_new${i}`, ...a }) as ResolutionAction,
    );
    this.draft = {
      ...old,
      ...(body as Partial<Resolution>),
      action_items: items,
      edited_by: [...new Set([...old.edited_by, user])],
      revision: old.revision + 1,
    };
    return this.draft;
  }
  #tagged = (r: Resolution) => Response.json(r, { headers: { etag: `"${r.revision}"` } });
  #conflict = () =>
    Response.json(
      { error: { code: 'version_conflict', message: 'Changed.', current: this.draft } },
      { status: 409 },
    );
}
const refusal = (status: number, code: string) =>
  Response.json({ error: { code, message: `No: ${code}.` } }, { status });

let backend: Backend;
let device: ReturnType<typeof store>;
let d: Drafting;
const make = () =>
  new Drafting('fork_1', {
    api: new Api({ fetch: backend.fetch, base: 'http://x' }),
    myId: 'user_me',
    editStorage: storedEditIn(device, 'k', isStoredEdit),
    learnTasks: (tasks: Task[]) => void tasks,
    drafter: () => 'Vibe',
  });
const receive = (type: OutcomeEvent['type'], resolution: Resolution) =>
  d.onEvent({ type, seq: 1, ts: AT, data: { resolution } } as OutcomeEvent);
/** Types into a field as the form does. */
const type = (text: string) => {
  d.fields.headline = text;
  d.touched();
};
const opened = async (draft = result()) => {
  backend.draft = draft;
  await d.open(fork({ draft_id: draft.id }), null, false);
};
const patches = () => backend.calls.filter((c) => c === 'PATCH resolution').length;

beforeEach(() => {
  vi.useFakeTimers();
  backend = new Backend();
  device = store();
  d = make();
});
afterEach(() => {
  d.dispose();
  vi.useRealTimers();
});

test('opening starts a draft, and loads it when its task is done', async () => {
  await d.open(fork(), null, false);
  expect(d.phase).toBe('drafting');
  backend.draft = result();
  await d.follow({ ...backend.task, status: 'completed' });
  expect(d.phase).toBe('editing');
  expect(d.fields.headline).toBe('Launch on Monday');
});
test('opening loads an existing draft, or follows a running task, and starts nothing', async () => {
  await opened();
  expect(backend.calls).toEqual(['GET resolution']);
  d = make();
  await d.open(fork(), backend.task, false);
  expect(d.taskId).toBe('task_r');
  expect(backend.calls).toHaveLength(1);
});
test('a reopened dive starts from its posted result, unless it has new messages', async () => {
  backend.draft = result({ status: 'published' });
  await d.open(fork({ resolution_id: 'res_1' }), null, false);
  expect(d.unchanged).toBe(true);
  d = make();
  await d.open(fork({ resolution_id: 'res_1', stale: true }), null, false);
  expect(d.phase).toBe('drafting');
  d = make();
  await d.open(fork({ resolution_id: 'res_1', stale: true }), null, true);
  expect(d.phase).toBe('editing');
});
test('a failed or stopped draft leaves empty fields and gives the reason', async () => {
  await d.open(fork(), null, false);
  await d.follow({ ...backend.task, status: 'failed' });
  expect([d.phase, d.failed]).toEqual(['editing', 'Vibe couldn’t draft this.']);
  expect(d.empty).toBe(true);
});
test('in a reopened dive, editing continues from the posted result', async () => {
  await d.open(fork({ resolution_id: 'res_1', stale: true }), null, false);
  backend.draft = result({ status: 'published', revision: 4 });
  await d.follow({ ...backend.task, status: 'cancelled' });
  expect([d.failed, d.fields.headline]).toEqual(['Stopped.', 'Launch on Monday']);
  d = make();
  await d.open(fork({ resolution_id: 'res_1', stale: true }), null, false);
  await d.byHand();
  expect([d.phase, d.failed, d.fields.headline]).toEqual(['editing', '', 'Launch on Monday']);
  type('Another one');
  await d.save();
  expect(d.saving).toBe('saved');
});
test('writing by hand does not wait: the task is stopped, the first text creates a draft', async () => {
  await d.open(fork(), null, false);
  await d.byHand();
  expect(backend.calls).toContain('POST cancel');
  type('By hand');
  await vi.advanceTimersByTimeAsync(2000);
  expect(backend.draft).toMatchObject({ headline: 'By hand', revision: 1 });
});
test('a draft that arrives after writing by hand has started waits to be chosen', async () => {
  await d.open(fork(), null, false);
  await d.byHand();
  type('By hand');
  backend.draft = result();
  await d.save();
  expect([d.clash, d.fields.headline, d.late?.headline]).toEqual([null, 'By hand', 'Launch on Monday']);
  await vi.advanceTimersByTimeAsync(2000);
  expect(backend.draft).toMatchObject({ headline: 'By hand', key_points: [] });
  d.useLate();
  expect(d.fields.headline).toBe('Launch on Monday');
  await d.save();
  expect(backend.draft.key_points).toHaveLength(2);
});

test('changes are saved 2 s after the last keystroke, and nothing else', async () => {
  await opened();
  type('Launch on Mon');
  await vi.advanceTimersByTimeAsync(1900);
  type('Launch on Monday morning');
  await vi.advanceTimersByTimeAsync(1900);
  expect([patches(), d.saving]).toEqual([0, 'unsaved']);
  await vi.advanceTimersByTimeAsync(100);
  expect([patches(), d.saving]).toEqual([1, 'saved']);
  expect(backend.bodies.at(-1)).toEqual({ headline: 'Launch on Monday morning' });
});
test('leaving a field saves immediately; without a change, nothing is sent', async () => {
  await opened();
  await d.left();
  type('Launch on Tuesday');
  await d.left();
  expect(patches()).toBe(1);
});
test('text typed during a save is saved after it', async () => {
  await opened();
  type('One');
  const saving = d.save();
  type('Two');
  await saving;
  expect(d.saving).toBe('unsaved');
  await vi.advanceTimersByTimeAsync(2000);
  expect(backend.draft?.headline).toBe('Two');
});
test('a new action item keeps the ID from the server', async () => {
  await opened();
  d.add('action_items');
  d.fields.action_items[1]!.text = 'Tell the press';
  d.touched();
  await d.save();
  const { id } = d.fields.action_items[1]!;
  expect(id).toBe(backend.draft?.action_items[1]?.id);
  d.fields.action_items[1]!.owner_id = 'user_bo';
  d.touched();
  await d.save();
  expect(backend.draft?.action_items[1]).toMatchObject({ id, owner_id: 'user_bo' });
});
test('an empty line is not sent, and a headline that is too long waits while the rest is saved', async () => {
  await opened();
  d.add('key_points');
  d.touched();
  await d.save();
  expect(patches()).toBe(0);
  d.fields.conclusion = 'Short.';
  type('x'.repeat(121));
  await d.save();
  expect(backend.bodies.at(-1)).toEqual({ conclusion: 'Short.' });
  expect(d.problems).toEqual(['Headline is 1 over the limit']);
});
test('without a network, text is kept on the device and saved later', async () => {
  await opened();
  backend.down = true;
  type('Kept');
  await vi.advanceTimersByTimeAsync(2000);
  expect(d.saving).toBe('later');
  expect(device.kept.get('k')).toContain('Kept');
  backend.down = false;
  await vi.advanceTimersByTimeAsync(3000);
  expect([d.saving, backend.draft?.headline, device.kept.size]).toEqual(['saved', 'Kept', 0]);
});
test('unsaved text of a closed window is restored', async () => {
  await opened();
  backend.down = true;
  type('From before');
  d.dispose();
  backend.down = false;
  backend.change('user_bo', { conclusion: 'Bo was here' });
  d = make();
  await d.open(fork({ draft_id: 'res_1' }), null, false);
  expect([d.fields.headline, d.fields.conclusion]).toEqual(['From before', 'Bo was here']);
  await vi.advanceTimersByTimeAsync(2000);
  expect(backend.draft?.headline).toBe('From before');
});

test('other people’s changes in other fields are merged with mine', async () => {
  await opened();
  backend.change('user_bo', { conclusion: 'Bo was here' });
  type('Mine');
  await d.save();
  expect(d.clash).toBeNull();
  await vi.advanceTimersByTimeAsync(2000);
  expect(backend.draft).toMatchObject({ headline: 'Mine', conclusion: 'Bo was here' });
});
test('conflicting edits of a field are both shown, and nothing is sent until one is chosen', async () => {
  await opened();
  type('Mine');
  backend.change('user_bo', { headline: 'Bo’s' });
  await d.save();
  expect(d.clash).toMatchObject({ who: 'user_bo', fields: ['headline'] });
  expect(d.fields.headline).toBe('Mine');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(backend.draft?.headline).toBe('Bo’s');
  await d.takeOver();
  expect(backend.draft?.headline).toBe('Mine');
});
test('using theirs keeps my text available', async () => {
  await opened();
  type('Mine');
  receive('resolution.updated', backend.change('user_bo', { headline: 'Bo’s' }));
  expect(d.clash).not.toBeNull();
  d.useTheirs();
  expect([d.fields.headline, d.saving]).toEqual(['Bo’s', 'saved']);
  d.bringBack();
  await vi.advanceTimersByTimeAsync(2000);
  expect(backend.draft?.headline).toBe('Mine');
});
test('without my own edits, their text appears and the fields are locked until they pause or I take over', async () => {
  await opened();
  const key = d.fields.key_points[0]!.key;
  receive('resolution.updated', backend.change('user_bo', { headline: 'Bo’s' }));
  expect([d.fields.headline, d.other?.who]).toEqual(['Bo’s', 'user_bo']);
  expect(d.fields.key_points[0]!.key).toBe(key);
  await vi.advanceTimersByTimeAsync(15_000);
  expect(d.other).toBeNull();
  receive('resolution.updated', backend.change('user_bo', { headline: 'Bo’s 2' }));
  await d.takeOver();
  expect(d.other).toBeNull();
});
test('the echo of my own save is not another editor', async () => {
  await opened();
  type('Mine');
  const saving = d.save();
  const echo = result({ headline: 'Mine', revision: 2, edited_by: ['user_me'] });
  receive('resolution.updated', echo);
  await saving;
  receive('resolution.updated', echo);
  expect([d.other, d.clash]).toEqual([null, null]);
});

test('redrafting over edits asks for confirmation, whoever made them', async () => {
  await opened();
  type('Mine');
  await d.redraft('Shorter');
  expect([d.asking, backend.calls.includes('POST resolve')]).toEqual(['Shorter', false]);
  await d.redraft('Shorter', true);
  expect(backend.bodies.at(-1)).toEqual({ guidance: 'Shorter', replace_draft: true });
  backend.draft = result({ headline: 'Anew', revision: 7, action_items: [] });
  await d.follow({ ...backend.task, status: 'completed' });
  expect(d.fields.headline).toBe('Anew');
  d.bringBack();
  expect(d.fields.headline).toBe('Mine');
  await d.save();
  // The new draft has different items on the server.
  expect(backend.bodies.at(-1)?.action_items).toMatchObject([{ text: 'Book the room' }]);
  expect(backend.bodies.at(-1)?.action_items).not.toMatchObject([{ id: 'item_1' }]);
});
test('a failed redraft leaves the text unchanged', async () => {
  await opened();
  await d.redraft('');
  await d.follow({ ...backend.task, status: 'failed' });
  expect([d.phase, d.fields.headline]).toEqual(['editing', 'Launch on Monday']);
});
test('a draft that others edited is not replaced without confirmation', async () => {
  await opened();
  backend.change('user_bo', { headline: 'Bo’s' });
  await d.redraft('Shorter');
  expect([d.phase, d.asking, d.fields.headline]).toEqual(['editing', 'Shorter', 'Bo’s']);
});

test('posting saves first and returns the card', async () => {
  await opened();
  type('Final');
  const card = await d.post();
  expect(card?.id).toBe('msg_card');
  expect(backend.draft).toMatchObject({ headline: 'Final', status: 'published' });
  expect(device.kept.size).toBe(0);
});
test('a failed post keeps the fields and can be retried', async () => {
  await opened();
  backend.down = true;
  expect(await d.post()).toBeNull();
  expect(d.postProblem).toMatch(/^Not posted\./);
  expect([d.posting, d.saving, d.fields.headline]).toEqual([false, 'saved', 'Launch on Monday']);
  backend.down = false;
  expect((await d.post())?.id).toBe('msg_card');
});
test('a post over someone’s newer text shows it first', async () => {
  await opened();
  backend.change('user_bo', { headline: 'Bo’s' });
  expect(await d.post()).toBeNull();
  expect([d.fields.headline, d.other?.who]).toEqual(['Bo’s', 'user_bo']);
});
test('nothing is posted without a headline', async () => {
  await opened();
  type('  ');
  expect(await d.post()).toBeNull();
  expect(backend.calls).not.toContain('POST publish');
});
test('if someone else posts, the editor closes with a link to the card, and my text stays', async () => {
  await opened();
  type('Mine');
  const by = { type: 'human' as const, id: 'user_bo', name: 'Bo' };
  receive('resolution.published', result({ status: 'published', published_by: by, message_id: 'msg_card' }));
  expect([d.phase, d.closed, d.fields.headline]).toEqual(['closed', { by, card: 'msg_card' }, 'Mine']);
});

/** The editors of two windows of one browser, both open on the same draft. */
const twoWindows = async () => {
  const browser = new Browser();
  const editor = () =>
    new Drafting('fork_1', {
      api: new Api({ fetch: backend.fetch, base: 'http://x' }),
      myId: 'user_me',
      editStorage: storedEditIn(browser.open().store, 'k', isStoredEdit),
      learnTasks: (tasks: Task[]) => void tasks,
      drafter: () => 'Vibe',
    });
  backend.draft = result();
  const windows = [editor(), editor()] as const;
  for (const w of windows) await w.open(fork({ draft_id: backend.draft.id }), null, false);
  return windows;
};
test('unsaved text in two windows: each shows the other’s edits, and saving in one keeps the other’s', async () => {
  const [a, b] = await twoWindows();
  a.fields.headline = 'typed in a';
  a.touched();
  await vi.advanceTimersByTimeAsync(0);
  expect(b.fields.headline).toBe('typed in a');
  b.fields.conclusion = 'typed in b';
  b.touched();
  await vi.advanceTimersByTimeAsync(0);
  expect(a.fields.conclusion).toBe('typed in b');
  a.dispose();
  b.dispose();
});
test('text typed on in one window replaces what the other mirrors, and only the first saves it', async () => {
  const [a, b] = await twoWindows();
  for (const headline of ['t', 'ty', 'typed']) {
    a.fields.headline = headline;
    a.touched();
    await vi.advanceTimersByTimeAsync(500);
    expect([b.fields.headline, b.dirty]).toEqual([headline, false]);
  }
  await vi.advanceTimersByTimeAsync(10_000);
  expect(backend.bodies.filter((x) => 'headline' in x)).toEqual([{ headline: 'typed' }]);
  expect([a.clash, b.clash]).toEqual([null, null]);
  b.fields.headline = 'typed in b';
  b.touched();
  expect(b.dirty).toBe(true);
  a.dispose();
  b.dispose();
});
test('a window removes only the unsaved text that it has read', () => {
  const browser = new Browser();
  const storage = () => storedEditIn(browser.open().store, 'k', isStoredEdit);
  const [a, b] = [storage(), storage()];
  a.set({ base: NOTHING, mine: { ...NOTHING, headline: 'from a' } });
  b.set({ base: NOTHING, mine: { ...NOTHING, headline: 'from b' } });
  a.clear();
  expect(b.get()?.mine.headline).toBe('from b');
  b.clear();
  expect(b.get()).toBeNull();
});
