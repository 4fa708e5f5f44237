// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { beforeEach, expect, test } from 'vitest';
import { schedule } from '../test/make-schedules';
import { ask, post, workflow } from '../test/make-workflows';
import { Screen } from '../test/screen';
import SchedulesPage from './SchedulesPage.svelte';

const screen = new Screen();
const select = (name: string) => page.findByRole<HTMLSelectElement>('combobox', { name });
const names = (of: HTMLElement) =>
  within(of)
    .getAllByRole('option')
    .map((option) => option.textContent);
const target = { type: 'workflow', workflow_id: 'flow_1', input: 'Monday' } as const;

beforeEach(() => {
  const { backend } = screen.scene;
  backend.workflows = [
    workflow({ steps: [ask('draft')] }),
    workflow({ id: 'flow_2', name: 'stand-up', steps: [post('tell')] }),
    workflow({ id: 'flow_3', name: 'old', status: 'archived' }),
  ];
  backend.schedules = [schedule({ target, deliver: null })];
});

test('active workflows can be scheduled', async () => {
  screen.show(SchedulesPage, {});
  await page.findByText('Workflow review');
  await fireEvent.click(page.getByRole('button', { name: 'New schedule' }));
  const choices = names(await select('Agent or workflow'));
  expect(choices).toEqual([
    'Coder',
    'Vibe',
    'Coder, regular check',
    'Vibe, regular check',
    'review',
    'stand-up',
  ]);
  expect(names(await select('Deliver to'))).not.toContain('Nowhere');
});
test('a schedule of a workflow has its name, its input, and a place only if it posts', async () => {
  screen.show(SchedulesPage, {});
  expect(await page.findByText('Workflow review')).toBeTruthy();
  screen.scene.event('workflow.updated', { workflow: workflow({ name: 'recap', steps: [ask('draft')] }) });
  expect(await page.findByText('Workflow recap')).toBeTruthy();
  await fireEvent.click(page.getByRole('button', { name: 'Edit Morning' }));
  const what = await select('Agent or workflow');
  expect([what.value, names(what).includes('recap')]).toEqual(['workflow:flow_1', true]);
  const input = page.getByRole<HTMLTextAreaElement>('textbox', { name: 'What to ask' });
  expect([input.value, input.required]).toEqual(['Monday', false]);
  const where = await select('Deliver to');
  expect([where.value, names(where)[0]]).toEqual(['', 'Nowhere']);
  expect(page.getByText('Optional, because this workflow posts nothing.')).toBeTruthy();
});
const field = () => page.findByRole<HTMLTextAreaElement>('textbox', { name: 'What to ask' });
const click = (name: string) => fireEvent.click(page.getByRole('button', { name }));
/** Opens the editor with this button, and types. */
async function type(button: string, value: string) {
  await fireEvent.click(await page.findByRole('button', { name: button }));
  await fireEvent.input(await field(), { target: { value } });
}
test.each(['Edit Morning', 'New schedule'])(
  'after "%s", unsaved changes outlive the page',
  async (button) => {
    const { unmount } = screen.show(SchedulesPage, {});
    await type(button, 'Mine');
    unmount();
    screen.show(SchedulesPage, {});
    await fireEvent.click(await page.findByRole('button', { name: button }));
    expect((await field()).value).toBe('Mine');
    expect(page.getByText('Your unsaved changes were restored.')).toBeTruthy();
  },
);
test.each(['Edit Morning', 'New schedule'])(
  'after "%s", discarded changes do not come back',
  async (button) => {
    screen.show(SchedulesPage, {});
    await type(button, 'Mine');
    await click('Cancel');
    await click('Discard');
    await fireEvent.click(await page.findByRole('button', { name: button }));
    expect((await field()).value).not.toBe('Mine');
    expect(page.queryByText('Your unsaved changes were restored.')).toBeNull();
    expect(screen.ws.store.keys('openvibe.schedule.')).toEqual([]);
  },
);
