import { expect, test } from 'vitest';
import { Browser, store } from '../test/make';
import { Drafts } from './drafts.svelte';
import { SafeStore } from './safe-store.svelte';

const DAY_MS = 86_400_000;
const tick = () => new Promise<void>((done) => setTimeout(done));

test('a draft survives a reload', () => {
  const kept = store();
  new Drafts(kept, 'u.w').set('t:1', 'half a th');
  expect(new Drafts(kept, 'u.w').get('t:1')).toBe('half a th');
});
test('sending clears the draft, also on the device', () => {
  const kept = store();
  const d = new Drafts(kept, 'u.w');
  d.set('t:1', 'x');
  d.clear('t:1');
  expect(d.has('t:1')).toBe(false);
  expect(kept.kept.size).toBe(0);
});
test('blank text is not a draft', () => {
  const d = new Drafts(store(), 'u.w');
  d.set('t:1', '  \n');
  expect(d.has('t:1')).toBe(false);
});
test('each draft is one entry, keyed by person, workspace, and composer', () => {
  const kept = store();
  new Drafts(kept, 'user_a.ws_1').set('t:thread_1', 'x');
  expect([...kept.kept.keys()]).toEqual(['openvibe.draft.user_a.ws_1.t:thread_1']);
});
test('two windows keep both drafts, and each shows the other’s text', async () => {
  const browser = new Browser();
  const [a, b] = [new Drafts(browser.open().store, 'u.w'), new Drafts(browser.open().store, 'u.w')];
  a.set('t:1', 'from a');
  b.set('t:2', 'from b');
  await tick();
  expect([a.get('t:2'), b.get('t:1')]).toEqual(['from b', 'from a']);
  const reopened = new Drafts(browser.open().store, 'u.w');
  expect([reopened.get('t:1'), reopened.get('t:2')]).toEqual(['from a', 'from b']);
});
test('a focused composer keeps its text, and can use that of the other window', async () => {
  const browser = new Browser();
  const [a, b] = [new Drafts(browser.open().store, 'u.w'), new Drafts(browser.open().store, 'u.w')];
  let isFocused = true;
  const release = a.hold('t:1', () => isFocused);
  b.set('t:1', 'from b');
  await tick();
  expect([a.get('t:1'), a.otherOf('t:1')]).toEqual(['from b', null]); // it was empty
  a.set('t:1', 'from a');
  await tick();
  expect(b.get('t:1')).toBe('from a');
  b.set('t:1', 'again from b');
  await tick();
  expect([a.get('t:1'), a.otherOf('t:1')]).toEqual(['from a', 'again from b']);
  a.set('t:1', a.otherOf('t:1')!);
  expect([a.get('t:1'), a.otherOf('t:1')]).toEqual(['again from b', null]);
  isFocused = false;
  b.set('t:1', 'b');
  await tick();
  expect(a.get('t:1')).toBe('b');
  isFocused = true;
  release();
  b.set('t:1', 'once more');
  await tick();
  expect([a.get('t:1'), a.otherOf('t:1')]).toEqual(['once more', null]);
});
test('a draft that another window continued and sent is not left in a focused composer', async () => {
  const browser = new Browser();
  const [a, b] = [new Drafts(browser.open().store, 'u.w'), new Drafts(browser.open().store, 'u.w')];
  a.hold('t:1', () => true);
  a.set('t:1', 'Lunch');
  await tick();
  b.set('t:1', 'Lunch at noon?');
  await tick();
  expect(a.get('t:1')).toBe('Lunch');
  b.clear('t:1');
  await tick();
  expect([a.get('t:1'), a.otherOf('t:1'), browser.kept.size]).toEqual(['', null, 0]);
});
test('a text that only one of two focused composers has survives the sending of the other', async () => {
  const browser = new Browser();
  const [a, b] = [new Drafts(browser.open().store, 'u.w'), new Drafts(browser.open().store, 'u.w')];
  b.hold('t:1', () => true);
  b.set('t:1', 'from b');
  a.set('t:1', 'from a');
  await tick();
  expect([b.get('t:1'), b.otherOf('t:1')]).toEqual(['from b', 'from a']);
  a.clear('t:1');
  await tick();
  expect([b.get('t:1'), b.otherOf('t:1')]).toEqual(['from b', null]);
  expect(new Drafts(browser.open().store, 'u.w').get('t:1')).toBe('from b');
});
test('a composer that sends its own text leaves that of the other window', async () => {
  const browser = new Browser();
  const [a, b] = [new Drafts(browser.open().store, 'u.w'), new Drafts(browser.open().store, 'u.w')];
  a.hold('t:1', () => true);
  b.hold('t:1', () => true);
  b.set('t:1', 'from b');
  await tick();
  a.set('t:1', 'from a');
  await tick();
  b.clear('t:1');
  await tick();
  expect([a.get('t:1'), b.get('t:1'), a.otherOf('t:1'), b.otherOf('t:1')]).toEqual([
    'from a',
    'from a',
    null,
    null,
  ]);
  a.set('t:1', 'from a, too');
  await tick();
  b.clear('t:1');
  await tick();
  expect([a.get('t:1'), b.get('t:1')]).toEqual(['from a, too', 'from a, too']);
  b.clear('t:1');
  await tick();
  expect([a.get('t:1'), b.get('t:1'), browser.kept.size]).toEqual(['', '', 0]);
});
test('a window that shows the texts of another one does not bring back a sent text', async () => {
  const browser = new Browser();
  const [a, b] = [new Drafts(browser.open().store, 'u.w'), new Drafts(browser.open().store, 'u.w')];
  b.hold('t:1', () => true);
  a.set('t:1', 'first');
  await tick();
  expect(b.get('t:1')).toBe('first');
  // The events of the next two texts arrive when the second one is stored.
  a.clear('t:1');
  a.set('t:1', 'second');
  await tick();
  expect([b.get('t:1'), b.otherOf('t:1')]).toEqual(['second', null]);
  a.clear('t:1');
  await tick();
  expect([a.get('t:1'), b.get('t:1'), browser.kept.size]).toEqual(['', '', 0]);
});
test('events that cross leave both windows with the stored value', async () => {
  const browser = new Browser();
  const [a, b] = [new Drafts(browser.open().store, 'u.w'), new Drafts(browser.open().store, 'u.w')];
  a.set('t:1', 'from a');
  b.set('t:1', 'from b');
  await tick();
  expect([a.get('t:1'), b.get('t:1')]).toEqual(['from b', 'from b']);
});
test('the number of drafts is not limited', () => {
  const kept = store();
  const d = new Drafts(kept, 'u.w');
  for (let i = 0; i < 500; i++) d.set(`t:${i}`, `text ${i}`);
  const reopened = new Drafts(kept, 'u.w');
  expect([reopened.get('t:0'), reopened.get('t:499')]).toEqual(['text 0', 'text 499']);
});
test('a draft is deleted after 90 days without a change, not before', () => {
  const kept = store();
  new Drafts(kept, 'u.w', () => 0).set('t:1', 'x');
  expect(new Drafts(kept, 'u.w', () => 89 * DAY_MS).has('t:1')).toBe(true);
  expect(new Drafts(kept, 'u.w', () => 91 * DAY_MS).has('t:1')).toBe(false);
  expect(kept.kept.size).toBe(0);
});
test('drafts of earlier versions are migrated once, without replacing newer ones', () => {
  const kept = store();
  new Drafts(kept, 'u.w').set('t:2', 'newer');
  kept.set('openvibe.drafts.u.w', JSON.stringify({ 't:1': 'one', 't:2': 'two' }));
  const d = new Drafts(kept, 'u.w');
  expect([d.get('t:1'), d.get('t:2')]).toEqual(['one', 'newer']);
  expect(kept.get('openvibe.drafts.u.w')).toBeNull();
});
test('invalid entries on the device are ignored', () => {
  const kept = store();
  kept.set('openvibe.drafts.u.w', '[1]');
  kept.set('openvibe.draft.u.w.t:1', '"x"');
  const d = new Drafts(kept, 'u.w');
  expect([d.get('0'), d.get('t:1')]).toEqual(['', '']);
});
test('a draft that the browser rejects stays in the window, is reported, and is stored when there is room', () => {
  const browser = new Browser();
  const store = new SafeStore(browser.open().store);
  const d = new Drafts(store, 'u.w');
  browser.full = true;
  d.set('t:1', 'x');
  expect([d.get('t:1'), store.failing]).toEqual(['x', true]);
  browser.full = false;
  d.set('t:2', 'y');
  expect([new Drafts(browser.open().store, 'u.w').get('t:1'), store.failing]).toEqual(['x', false]);
});

test('drafts of messages are listed by their last change; files alone are one, and other entries are not', () => {
  const kept = store();
  let now = 1000;
  const d = new Drafts(kept, 'u.w', () => now);
  d.set('t:1', 'first');
  now = 2000;
  d.set('c:2', 'second');
  d.set('a:2', 'agent_x');
  d.set('e:message_1', 'an edit');
  d.set('n:agent', 'an agent');
  now = 3000;
  d.set('f:d:3', '[{"id":"file_1"}]');
  expect(d.messages).toEqual([
    { place: 'd:3', text: '', at: 3000 },
    { place: 'c:2', text: 'second', at: 2000 },
    { place: 't:1', text: 'first', at: 1000 },
  ]);
  now = 4000;
  d.set('f:t:1', '[{"id":"file_2"}]');
  expect(d.messages[0]).toEqual({ place: 't:1', text: 'first', at: 4000 });
  expect(new Drafts(kept, 'u.w', () => now).messages).toEqual(d.messages);
});
test('a deleted draft can be restored with its files and time, unless a new one was begun', () => {
  const kept = store();
  let now = 1000;
  const d = new Drafts(kept, 'u.w', () => now);
  d.set('t:1', 'half a th');
  d.set('f:t:1', '[{"id":"file_1"}]');
  now = 2000;
  const restore = d.remove('t:1');
  expect([d.messages, kept.kept.size]).toEqual([[], 0]);
  restore();
  expect(d.messages).toEqual([{ place: 't:1', text: 'half a th', at: 1000 }]);
  expect(new Drafts(kept, 'u.w', () => now).messages).toEqual(d.messages);
  expect(d.files('t:1')).toBe(true);
  const again = d.remove('t:1');
  d.set('t:1', 'something else');
  again();
  expect(d.get('t:1')).toBe('something else');
});
