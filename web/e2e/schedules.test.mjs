// Schedules: the list, the editor with the next runs, runs, pauses, conflicts, and what the inbox
// shows after a pause.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { dialog, inspect, main, side, toast } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo, model } = await startTeam({ model: true, bo: { theme: 'light' } });
const PAGE = '/northwind/automation/schedules';
const list = (p) => main(p).getByRole('list', { name: 'Schedules' });
const row = (p, name) => list(p).getByRole('listitem').filter({ hasText: name });
const act = (p, name, what) => row(p, name).getByRole('button', { name: `${what} ${name}` });
const field = (p, name) => main(p).getByLabel(name, { exact: true });
const runs = (p) => main(p).getByRole('list', { name: 'Next five runs' }).getByRole('listitem');
const invalid = (p, name) => field(p, name).and(p.page.locator('[aria-invalid=true]')).waitFor();
const stored = async (p, name) => (await api(p, 'GET', 'schedules')).data.find((s) => s.name === name);
const open = async (p) => {
  await p.page.goto(PAGE);
  await main(p).getByRole('heading', { name: 'Automation', level: 1 }).waitFor();
};
const create = async (p, more = {}) => {
  const { channelId } = await known(p);
  return api(p, 'POST', 'schedules', {
    name: 'Evening',
    cron: '0 18 * * *',
    timezone: 'UTC',
    target: { type: 'agent', prompt: 'What is open?' },
    deliver: { channel_id: channelId('general') },
    missed: 'skip',
    ...more,
  });
};

test('the page is empty at first', async () => {
  await side(ada).getByRole('link', { name: 'Automation' }).click();
  await main(ada).getByRole('link', { name: 'Schedules' }).click();
  await main(ada).getByText('Nothing is scheduled.').waitFor();
  assert.equal(new URL(ada.page.url()).pathname, PAGE);
  await inspect(ada, 'schedules-none');
});

test('the next five runs follow the times, and errors are at their field', async () => {
  await button(ada.page, 'New schedule').click();
  const { timeZone } = await ada.page.evaluate(() => Intl.DateTimeFormat().resolvedOptions());
  assert.equal(await field(ada, 'Time zone').inputValue(), timeZone);
  await runs(ada).nth(4).waitFor();
  await field(ada, 'Time zone').selectOption('Europe/Berlin');
  await field(ada, 'When').selectOption('Every week');
  await field(ada, 'Day').selectOption('Friday');
  await field(ada, 'Time').fill('14:30');
  await runs(ada)
    .filter({ hasText: /^Fri .*, 14:30$/ })
    .nth(4)
    .waitFor();
  assert.equal(await runs(ada).count(), 5);
  await field(ada, 'When').selectOption('Custom');
  assert.equal(await box(ada.page, 'Cron expression').inputValue(), '30 14 * * 5');
  await box(ada.page, 'Cron expression').fill('* * * * *');
  await invalid(ada, 'Cron expression');
  await inspect(ada, 'schedules-error');
  await box(ada.page, 'Cron expression').fill('0 9 1 * *');
  await runs(ada)
    .filter({ hasText: / 1 \w+.*, 09:00$/ })
    .nth(4)
    .waitFor();
});

test('a schedule is created and listed for everyone who reads its channel', async () => {
  await open(bo);
  await main(bo).getByText('Nothing is scheduled.').waitFor();
  await box(ada.page, 'Name').fill('Morning');
  await box(ada.page, 'What to ask').fill('Which day for the launch?');
  await field(ada, 'When').selectOption('Weekdays');
  await field(ada, 'Time').fill('09:15');
  await field(ada, 'Deliver to').selectOption('#general');
  await field(ada, 'If a time is missed').selectOption('Skip it');
  await inspect(ada, 'schedules-editor');
  await button(ada.page, 'Create').click();
  await toast(ada, 'Scheduled');
  await row(ada, 'Morning').getByText('Weekdays at 09:15, Europe/Berlin').waitFor();
  const { cron, timezone, target, missed } = await stored(ada, 'Morning');
  assert.deepEqual([cron, timezone, missed], ['15 9 * * 1-5', 'Europe/Berlin', 'skip']);
  assert.deepEqual([target.type, target.prompt], ['agent', 'Which day for the launch?']);
  await row(bo, 'Morning').getByText('for Ada Lindholm').waitFor();
  assert.equal(await row(bo, 'Morning').getByRole('button').count(), 0);
  await inspect(ada, 'schedules-list');
});

test('running a schedule now posts the reply in a thread', async () => {
  model.answers.set('Which day for the launch?', 'Take Monday.');
  await act(ada, 'Morning', 'Run now').click();
  await toast(ada, 'Started');
  const asks = (body) => body.messages.some((m) => String(m.content).includes('by the schedule "Morning"'));
  await model.until(asks);
  await ada.page.goto('/northwind/c/general');
  await main(ada).getByText('Take Monday.').first().waitFor();
});

test('a pause and its end show in every window', async () => {
  await open(ada);
  await open(bo);
  await act(ada, 'Morning', 'Pause').click();
  for (const p of [ada, bo]) await row(p, 'Morning').getByText('Paused.').waitFor();
  await act(ada, 'Morning', 'Resume').click();
  for (const p of [ada, bo]) await row(p, 'Morning').getByText('Next run:').waitFor();
});

test('the person decides about a field that was also changed elsewhere', async () => {
  await act(ada, 'Morning', 'Edit').click();
  const { id } = await stored(ada, 'Morning');
  await api(ada, 'PATCH', `schedules/${id}`, { name: 'Noon' });
  await box(ada.page, 'Name').fill('Early');
  await box(ada.page, 'What to ask').fill('What is new?');
  await button(ada.page, 'Save').click();
  await main(ada).getByText('This schedule was changed in the meantime.').waitFor();
  assert.equal(await box(ada.page, 'Name').inputValue(), 'Early');
  await inspect(ada, 'schedules-conflict');
  await button(ada.page, 'Use this for Name').click();
  assert.equal(await box(ada.page, 'Name').inputValue(), 'Noon');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved');
  assert.equal((await stored(ada, 'Noon')).target.prompt, 'What is new?');
});

test('unsaved changes are kept until the person discards them', async () => {
  await act(ada, 'Noon', 'Edit').click();
  await box(ada.page, 'Name').fill('Late');
  await side(ada).getByRole('link', { name: 'Decisions' }).click();
  await dialog(ada).getByText('Discard your changes?').waitFor();
  await button(ada.page, 'Stay').click();
  assert.equal(await box(ada.page, 'Name').inputValue(), 'Late');
  await button(ada.page, 'Cancel').click();
  await button(ada.page, 'Discard').click();
  await row(ada, 'Noon').waitFor();
});

test('a regular check has no question', async () => {
  await button(ada.page, 'New schedule').click();
  await box(ada.page, 'Name').fill('Watch');
  await field(ada, 'Agent or workflow').selectOption('Vibe, regular check');
  await main(ada).getByText('It follows its HEARTBEAT.md').waitFor();
  assert.equal(await box(ada.page, 'What to ask').count(), 0);
  await button(ada.page, 'Create').click();
  await row(ada, 'Watch').getByText('Vibe, regular check in #general').waitFor();
  await act(ada, 'Watch', 'Run now').click();
  await toast(ada, 'Nothing to do: HEARTBEAT.md is blank');
});

test('a workflow is scheduled with its input', async () => {
  const content = 'Open: {{input}}';
  await api(ada, 'POST', 'workflows', { name: 'recap', steps: [{ id: 'post', kind: 'output', content }] });
  const same = { kind: 'condition', value: 'a', op: 'equals', with: 'a', then: 'end', else: 'end' };
  await api(ada, 'POST', 'workflows', { name: 'quiet', steps: [{ id: 'same', ...same }] });
  await button(ada.page, 'New schedule').click();
  await box(ada.page, 'Name').fill('Weekly');
  await field(ada, 'Agent or workflow').selectOption('quiet');
  await field(ada, 'Deliver to').selectOption('Nowhere');
  await field(ada, 'Agent or workflow').selectOption('recap');
  assert.equal(await button(ada.page, 'Create').isDisabled(), true);
  await field(ada, 'Deliver to').selectOption('#general');
  await box(ada.page, 'What to ask').fill('the venue');
  await inspect(ada, 'schedules-workflow');
  await button(ada.page, 'Create').click();
  await row(ada, 'Weekly').getByText('Workflow recap in #general').waitFor();
  await act(ada, 'Weekly', 'Run now').click();
  await toast(ada, 'Started');
  await ada.page.goto('/northwind/c/general');
  await main(ada).getByText('Open: the venue').first().waitFor();
  await open(ada);
});

test('a schedule is deleted after a question', async () => {
  for (const name of ['Weekly', 'Watch', 'Noon']) {
    await act(ada, name, 'Delete').click();
    await dialog(ada).getByText('Delete this schedule?').waitFor();
    await dialog(ada).getByRole('button', { name: 'Delete', exact: true }).click();
    await row(ada, name).waitFor({ state: 'detached' });
  }
  await main(ada).getByText('Nothing is scheduled.').waitFor();
  await main(bo).getByText('Nothing is scheduled.').waitFor();
});

test('an admin pauses a schedule of someone else', async () => {
  await create(bo);
  await act(ada, 'Evening', 'Pause').click();
  for (const p of [ada, bo]) await row(p, 'Evening').getByText('Paused by an admin.').waitFor();
  assert.equal(await act(bo, 'Evening', 'Resume').count(), 0);
  assert.equal(await act(ada, 'Evening', 'Edit').count(), 0);
  assert.equal(await act(ada, 'Evening', 'Run now').count(), 0);
});
