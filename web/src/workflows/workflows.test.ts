// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { beforeEach, expect, test } from 'vitest';
import { workflow } from '../test/make-workflows';
import { Screen } from '../test/screen';
import WorkflowsPage from './WorkflowsPage.svelte';

const screen = new Screen();
const LIST = '/northwind/automation/workflows';
const description = () => page.findByRole<HTMLTextAreaElement>('textbox', { name: 'Description' });
const type = async (value: string) => fireEvent.input(await description(), { target: { value } });
const open = (id: string) => screen.app.router.go(`${LIST}/${id}`);

beforeEach(() => {
  screen.scene.backend.workflows = [workflow()];
  open('flow_1');
});

test('unsaved changes of a workflow are shown again after the page was removed', async () => {
  const { unmount } = screen.show(WorkflowsPage, {});
  await type('Mine');
  unmount();
  screen.show(WorkflowsPage, {});
  expect((await description()).value).toBe('Mine');
  expect(page.getByText('Your unsaved changes were restored.')).toBeTruthy();
});
test.each(['flow_1', 'new'])('changes of %s that are discarded on leaving do not come back', async (id) => {
  open(id);
  screen.show(WorkflowsPage, {});
  await type('Mine');
  screen.app.router.go(LIST);
  const dialog = within(await page.findByRole('dialog'));
  await fireEvent.click(dialog.getByRole('button', { name: 'Discard' }));
  await page.findByRole('list', { name: 'Workflows' });
  open(id);
  expect((await description()).value).toBe('');
  expect(page.queryByText('Your unsaved changes were restored.')).toBeNull();
  expect(screen.ws.store.keys('openvibe.workflow.')).toEqual([]);
});
