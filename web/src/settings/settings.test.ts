import { expect, test } from 'vitest';
import type { AuditEntry, ModelTest, Usage, UsageRow } from '../api/admin-types';
import { ApiError } from '../api/problem';
import type { Role } from '../api/types';
import { AT, member } from '../test/make';
import { auditText } from './audit';
import { AuditList } from './audit-list.svelte';
import { Loaded } from '../ui/loaded.svelte';
import { outcomeOf } from './model-text';
import { findMembers, SCOPES } from './roles';
import { brief, csvOf, money, monthBefore, monthName, nameOf, rowsOf, spanOf } from './usage';

const row = (x: Partial<UsageRow>): UsageRow => ({
  key: 'user_a',
  name: 'Ada',
  tasks: 1,
  failed: 0,
  input_tokens: 0,
  output_tokens: 0,
  cost_usd: 0,
  ...x,
});
const usage = (data: UsageRow[], x: Partial<Usage> = {}): Usage => ({
  object: 'list',
  group_by: 'person',
  from: '2026-11',
  to: '2026-11',
  data,
  total: row({}),
  storage: null,
  ...x,
});

test('months go back across years', () => {
  expect(monthBefore('2026-01', 1)).toBe('2025-12');
  expect(monthBefore('2026-11', -2)).toBe('2027-01');
  expect(monthName('2026-11')).toBe('November 2026');
  expect(spanOf('person', '2026-11')).toEqual({ from: '2026-11', to: '2026-11' });
  expect(spanOf('month', '2026-11')).toEqual({ from: '2025-12', to: '2026-11' });
});
test('the highest usage comes first; months are in calendar order, including empty ones', () => {
  const people = [
    row({ key: 'a', input_tokens: 5 }),
    row({ key: 'b', input_tokens: 5, output_tokens: 9 }),
    row({ key: 'c', input_tokens: 5, tasks: 3 }),
  ];
  expect(rowsOf(usage(people), 'person').map((r) => r.key)).toEqual(['b', 'c', 'a']);
  const months = rowsOf(usage([row({ key: '2026-03', tasks: 4 })], { from: '2025-12' }), 'month');
  expect(months.map((r) => r.key).slice(0, 4)).toEqual(['2025-12', '2026-01', '2026-02', '2026-03']);
  expect(months).toHaveLength(12);
  expect(months[3]).toMatchObject({ tasks: 4 });
  expect(nameOf(months[0]!, 'month')).toBe('December 2025');
});
test('an unknown cost is a dash, and a small one is not zero', () => {
  expect([null, 0, 0.004, 1234.5].map(money)).toEqual(['—', '$0.00', '< $0.01', '$1,234.50']);
  expect([0, 9999, 12_345, 2_400_000].map(brief)).toEqual(['0', '9,999', '12.3k', '2.4M']);
});
test('the CSV is quoted correctly and contains no formulas', () => {
  const text = csvOf(
    [row({ name: 'Lind, "Ada"', cost_usd: null }), row({ key: 'x', name: '=1+1' })],
    'person',
  );
  expect(text.split('\r\n')).toEqual([
    'Person,Id,Tasks,Failed,Tokens in,Tokens out,Cost in USD',
    '"Lind, ""Ada""",user_a,1,0,0,0,',
    "'=1+1,x,1,0,0,0,0",
    '',
  ]);
});

test('members are found by name, handle, or email, matching every word', () => {
  const all = [
    member('u1', 'Ada Lindholm', 'ada'),
    { ...member('u2', 'Bo Chen', 'bo'), role: 'admin' as Role },
  ];
  const found = (text: string, role: Role | '' = '') => findMembers(all, text, role).map((m) => m.user_id);
  expect(found('lind ADA')).toEqual(['u1']);
  expect(found('@bo')).toEqual(['u2']);
  expect(found('', 'admin')).toEqual(['u2']);
  expect(found('ada', 'admin')).toEqual([]);
});
test('a key offers only the scopes of its creator’s role', () => {
  const of = (role: Role) => SCOPES.filter((s) => s.roles.includes(role)).map((s) => s.scope);
  expect(of('viewer')).toEqual(['chat:read', 'agents:read']);
  expect(of('member')).not.toContain('workspace:admin');
  expect(of('admin')).toHaveLength(8);
});

const entry = (x: Partial<AuditEntry>): AuditEntry => ({
  id: 'audit_1',
  actor_id: 'user_ada',
  actor_kind: 'user',
  action: 'policy.changed',
  target: null,
  data: {},
  created_at: AT,
  ...x,
});
const names = {
  person: (id: string) => (id === 'user_bo' ? 'Bo' : 'Former member'),
  agent: () => null,
  channel: () => '#general',
};
test.each<[Partial<AuditEntry>, string]>([
  [
    { action: 'member.role_changed', target: 'user_bo', data: { from: 'member', to: 'admin' } },
    'changed the role of Bo from member to admin',
  ],
  [{ action: 'member.removed', target: 'user_x', data: { name: 'Cy' } }, 'removed Cy'],
  [{ action: 'member.removed', target: 'user_ada', data: { name: 'Ada' } }, 'left the workspace'],
  [
    { action: 'invite.created', data: { role: 'viewer', email: null } },
    'created an invite link for anyone who has it, as viewer',
  ],
  [
    { action: 'key.created', data: { name: 'CI', scopes: ['chat:read', 'new:scope'] } },
    'created the key “CI”: Read and new:scope',
  ],
  [
    { action: 'agent.status_changed', target: 'agent_1', data: { name: 'quill', status: 'archived' } },
    'archived @quill',
  ],
  [
    { action: 'workspace.updated', data: { name: 'North', slug: 'north' } },
    'changed the workspace: “North” at /north',
  ],
])('%o reads well', (x, words) => expect(auditText(entry(x), names)).toBe(words));
test('an action of a newer server is shown as it is', () => {
  const unknown = JSON.parse('{"action":"brand.new","target":"x_1"}') as Partial<AuditEntry>;
  expect(auditText(entry(unknown), names)).toBe('brand.new x_1');
});

test('the response to the latest filter wins, and older entries are appended', async () => {
  const asked: { after?: string; action?: string }[] = [];
  const answers: ((ids: string[], more?: boolean) => void)[] = [];
  const list = new AuditList({
    audit: (of) => {
      asked.push(of);
      return new Promise((done) =>
        answers.push((ids, more = false) => done({ data: ids.map((id) => entry({ id })), has_more: more })),
      );
    },
  });
  const first = list.load({ actor: '', action: '' });
  const second = list.load({ actor: '', action: 'key.created' });
  answers[1]!(['b', 'a'], true);
  answers[0]!(['z']);
  await Promise.all([first, second]);
  expect(list.entries.map((e) => e.id)).toEqual(['b', 'a']);
  const more = list.loadMore();
  answers[2]!(['_']);
  await more;
  expect(asked[2]).toEqual({ action: 'key.created', after: 'a' });
  expect(list.entries.map((e) => e.id)).toEqual(['b', 'a', '_']);
  expect(list.more).toBe(false);
});
test('content stays when a reload fails, and the error is shown', async () => {
  let fail = false;
  const loaded = new Loaded(() =>
    fail
      ? Promise.reject(new ApiError(503, { error: { message: 'the database is away' } }, ''))
      : Promise.resolve(7),
  );
  await loaded.load();
  fail = true;
  await loaded.load();
  expect(loaded).toMatchObject({ value: 7, problem: 'The database is away', busy: false });
  fail = false;
  await loaded.load();
  expect(loaded.problem).toBe('');
});

const tested = (x: Partial<ModelTest>): ModelTest => ({
  ok: false,
  provider: 'openai',
  model: 'm',
  latency_ms: 900,
  reply: null,
  error: null,
  ...x,
});
test.each([
  [tested({ ok: true }), 'ok', 'It works'],
  [tested({ ok: true, provider: 'builtin' }), 'ok', 'The built-in responder works'],
  [tested({ error: { code: 'auth', message: '' } }), 'bad', 'The provider does not accept the key'],
  [tested({ ok: true, latency_ms: 14_000 }), 'slow', 'It works, but slowly'],
  [tested({ error: { code: 'worker_lost', message: '' } }), 'bad', 'The model did not respond'],
  [tested({ error: { code: 'model_unavailable', message: '' } }), 'bad', 'Can’t reach the provider'],
  [tested({ error: { code: 'timeout', message: '' } }), 'bad', 'The model did not respond in time'],
])('%o is shown as %s', (t, tone, title) => expect(outcomeOf(t)).toMatchObject({ tone, title }));
