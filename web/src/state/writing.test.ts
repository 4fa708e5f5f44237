import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Router } from '../lib/router.svelte';
import { Scene } from '../test/backend';
import { channel, member, thread } from '../test/make';
import { responderOf } from './composer-context';
import type { ConversationRef } from './conversation-ref';
import type { ToastAction, Ui } from './ui.svelte';
import { Writing } from './writing.svelte';

let scene: Scene;
let writing: Writing;
let sent: string[];
let shown: string[];
let actions: ToastAction[];
/** Answers to the question about a notification that were passed with the texts. */
let notified: (boolean | undefined)[];
let ui: Ui;
let back: number;
let conversation: ConversationRef | null;
let open: () => void;
const PLACE = 't:thread_1';
const text = () => scene.ws.drafts.get(PLACE);
const send = (s: string) => {
  scene.ws.drafts.set(PLACE, s);
  writing.send();
};
const patches = () => scene.backend.calls.filter((c) => c.startsWith('PATCH'));

beforeEach(async () => {
  scene = new Scene();
  const { ws, backend } = scene;
  await ws.start();
  const bound = thread({ agent_id: 'agent_coder', agent_version: 1, auto_reply: true });
  backend.threads.set(bound.id, bound);
  ws.learnThread(bound);
  sent = [];
  shown = [];
  actions = [];
  notified = [];
  back = 0;
  conversation = { thread: 'thread_1', fork: null };
  const record = (s: string, action: ToastAction | null = null) => {
    shown.push(s);
    if (action) actions.push(action);
  };
  ui = { announce: record, show: record, dialog: null } as unknown as Ui;
  writing = new Writing(
    {
      ws,
      ui,
      router: { place: { path: '/' }, go: () => undefined } as unknown as Router,
      focus: () => undefined,
    },
    {
      place: () => PLACE,
      context: () => ({
        channel: channel(),
        conversation,
        responder: responderOf(ws.threads.map.get('thread_1')!, ws),
      }),
      isHere: () => true,
      onsend: (content, _files, notify) => {
        sent.push(content);
        notified.push(notify);
      },
      onback: () => void back++,
    },
  );
});
afterEach(() => scene.ws.stop());
/** Holds the server's responses until `open` is called. */
const hold = () => {
  scene.backend.gate = new Promise((r) => (open = () => r()));
};

test.each([
  [' Friday or Monday? ', 'Friday or Monday?'],
  ['/shrug', '/shrug'],
  ['/etc/hosts is it', '/etc/hosts is it'],
  [' /agent coder', '/agent coder'],
  ['//agent coder', '/agent coder'],
  ['\\/new things', '/new things'],
])('%j is sent as %j', (typed, content) => {
  send(typed);
  expect(sent).toEqual([content]);
  expect(text()).toBe('');
  expect(writing.running).toBeNull();
});
test.each(['/', '/agent', '/agent '])('%j waits for a choice', (typed) => {
  send(typed);
  expect([sent, text(), back]).toEqual([[], typed, 1]);
});
test('a blank text is not sent', () => {
  send('  \n');
  expect(sent).toEqual([]);
});
test('a command clears the composer immediately, and is not a message', async () => {
  hold();
  send('/agent vibe');
  expect(text()).toBe('');
  open();
  await writing.running;
  expect(patches()).toEqual(['PATCH /v1/threads/thread_1']);
  expect([sent, text(), back]).toEqual([[], '', 0]);
});
test('a message sent right after a command waits for it', async () => {
  hold();
  send('/agent vibe');
  send('And who books the room?');
  expect(sent).toEqual([]);
  open();
  await expect.poll(() => sent).toEqual(['And who books the room?']);
  expect(scene.ws.threads.map.get('thread_1')?.agent_id).toBe('agent_vibe');
});
test('a command with an unknown name is restored, before newer text', async () => {
  send('/agent vibe, please look');
  scene.ws.drafts.set(PLACE, 'at the plan');
  await writing.running;
  expect(text()).toBe('/agent vibe, please look at the plan');
  expect([sent, back]).toEqual([[], 1]);
  expect(shown[0]).toContain('Not sent');
});
test('a command that the server rejects is restored, too', async () => {
  scene.backend.fail = 403;
  send('/agent none');
  await writing.running;
  expect([text(), shown]).toEqual(['/agent none', ['No.']]);
});
const DEPLOY = { id: 'bot_1', handle: 'deploy', name: 'Deploy', commands: ['deploy'] };
test('a command of a bot is run in the thread, and only the person sees its answer', async () => {
  scene.ws.people.bots.set(DEPLOY.id, DEPLOY);
  scene.backend.commandAnswer = { message: null, text: 'On **it**' };
  send('/deploy web now');
  expect(text()).toBe('');
  await writing.running;
  expect(scene.backend.calls).toContain('POST /v1/commands/deploy');
  expect(scene.backend.bodies.at(-1)).toEqual({ thread_id: 'thread_1', text: 'web now' });
  expect(scene.ws.ephemeral.in('thread_1')).toMatchObject([{ content: 'On **it**', name: 'Deploy' }]);
  expect([sent, text()]).toEqual([[], '']);
});
test('a command that the bot does not answer is restored', async () => {
  scene.ws.people.bots.set(DEPLOY.id, DEPLOY);
  scene.backend.fail = 503;
  scene.backend.failure = { code: 'bot_no_answer', message: 'Deploy bot did not answer' };
  send('/deploy web');
  await writing.running;
  expect([sent, text()]).toEqual([[], '/deploy web']);
  expect(shown[0]).toContain('did not answer');
});
test('a command of no bot in the channel is restored, with a way to send it', async () => {
  scene.ws.people.bots.set(DEPLOY.id, DEPLOY);
  scene.backend.fail = 404;
  scene.backend.failure = { code: 'not_found', message: 'No.' };
  send('/deploy web');
  await writing.running;
  expect(text()).toBe('/deploy web');
  expect(shown[0]).toContain('type //deploy');
});
test('commands of bots do not run in deep dives, which bots do not see', async () => {
  scene.ws.people.bots.set(DEPLOY.id, DEPLOY);
  conversation = { thread: 'thread_1', fork: 'fork_1' };
  send('/deploy web');
  await writing.running;
  expect(scene.backend.calls.filter((c) => c.includes('commands'))).toEqual([]);
  expect(text()).toBe('/deploy web');
});
test('where bots have commands, an unknown one is sent only on request', () => {
  scene.ws.people.bots.set(DEPLOY.id, DEPLOY);
  send('/shrug well');
  expect([sent, text(), shown]).toEqual([[], '/shrug well', ['No command is named /shrug']]);
  actions.at(-1)!.run();
  expect([sent, text()]).toEqual([['/shrug well'], '']);
});
test('in a composer that starts threads, /new is just a prefix', () => {
  conversation = null;
  send('/new The chairs');
  expect(sent).toEqual(['The chairs']);
  send('/new');
  expect([sent.length, text()]).toEqual([1, '']);
});

/** The question about a notification, if it is on screen. */
const question = () => (ui.dialog?.name === 'notify' ? ui.dialog : null);
const fillChannel = (members: number) => {
  scene.backend.memberCount = members;
  for (let n = 0; n < 200; n++)
    scene.ws.people.members.set(`user_${n}`, member(`user_${n}`, `Person ${n}`, `person-${n}`));
};
test.each([
  [true, 'Notify'],
  [false, 'Send without'],
])(
  'a mention of a channel with 241 members is a question first; %j is the answer of “%s”',
  async (answer) => {
    fillChannel(241);
    send('@channel Friday');
    await expect.poll(() => question()?.count).toBe(240);
    expect([sent, text()]).toEqual([[], '@channel Friday']);
    question()!.answer(answer);
    await expect.poll(() => sent).toEqual(['@channel Friday']);
    expect(notified).toEqual([answer]);
    expect([text(), writing.running]).toEqual(['', null]);
  },
);
test('a question that is dismissed keeps the text', async () => {
  fillChannel(241);
  send('@everyone Friday');
  await expect.poll(() => question()).not.toBeNull();
  question()!.answer(null);
  await writing.running;
  expect([sent, text()]).toEqual([[], '@everyone Friday']);
});
test('a second Enter does not ask again', async () => {
  fillChannel(241);
  send('@everyone Friday');
  writing.send();
  await expect.poll(() => question()).not.toBeNull();
  const { answer } = question()!;
  ui.dialog = null;
  answer(null);
  await writing.running;
  await new Promise((done) => setTimeout(done, 50));
  expect([question(), writing.running, sent, text()]).toEqual([null, null, [], '@everyone Friday']);
});
test.each(['`@channel` is a group', '> @here', '@bo Friday'])('%j asks nothing', async (typed) => {
  fillChannel(241);
  send(typed);
  await expect.poll(() => sent).toEqual([typed]);
  expect(question()).toBeNull();
});
test('a mention of a small channel, and one that cannot be counted, are sent at once', async () => {
  fillChannel(100);
  send('@channel Friday');
  await expect.poll(() => sent).toEqual(['@channel Friday']);
  scene.backend.fail = 503;
  send('@channel Monday');
  await expect.poll(() => sent).toEqual(['@channel Friday', '@channel Monday']);
  expect(notified).toEqual([true, true]);
});
