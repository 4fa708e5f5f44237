// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { describe, expect, test } from 'vitest';
import InboxPage from '../inbox/InboxPage.svelte';
import { actionsOf } from '../approvals/actions.svelte';
import type { Collaboration } from '../api/types';
import { agentName } from '../lib/text';
import { fork, message, task } from '../test/make';
import { waiting } from '../test/make-actions';
import { result } from '../test/make-results';
import { Screen } from '../test/screen';
import AskAgents from './AskAgents.svelte';
import CollaborationBar from './CollaborationBar.svelte';
import { stateText } from './words';

const collaboration = (x: Partial<Collaboration> = {}): Collaboration => ({
  agents: ['agent_vibe', 'agent_coder'],
  turns: 3,
  turns_max: 8,
  state: 'running',
  ...x,
});

describe('the words of a collaboration', () => {
  const text = (x: Partial<Collaboration>) => stateText(collaboration(x), ['Coder', 'Reviewer']);
  test('name its agents and its state', () => {
    expect(text({})).toBe('Coder and Reviewer · turn 3 of 8');
    expect(text({ turns: 0 })).toBe('Coder and Reviewer · turn 1 of 8');
    expect(text({ state: 'done' })).toBe('Coder and Reviewer · 3 turns');
    expect(text({ state: 'stopped', turns: 1 })).toBe('Coder and Reviewer · stopped after 1 turn');
    expect(text({ state: 'failed' })).toBe('Coder and Reviewer · ended without a result');
  });
});

describe('on screen', () => {
  const screen = new Screen();
  const show = (x: Partial<Collaboration>, draft_id: string | null = null) => {
    let reviews = 0;
    screen.show(CollaborationBar, {
      fork: fork({ draft_id }),
      collaboration: collaboration(x),
      onreview: () => reviews++,
    });
    return () => reviews;
  };

  test('running agents can be stopped', async () => {
    const { backend, ws } = screen.scene;
    const root = task({ id: 'task_c', kind: 'collaborate', status: 'queued', fork_id: 'fork_1' });
    backend.tasks = [root];
    ws.tasks.put(root);
    show({});
    const region = within(await page.findByRole('region', { name: 'Agents at work' }));
    expect(region.getByRole('status').textContent).toMatch(/ · turn 3 of 8$/);
    await fireEvent.click(region.getByRole('button', { name: 'Stop' }));
    await waitFor(() => expect(backend.calls.at(-1)).toBe('POST /v1/tasks/task_c/cancel'));
    expect(backend.bodies.at(-1)).toEqual({ scope: 'tree' });
  });
  test('agents that ended without a result can try again, also after a reload', async () => {
    const { backend } = screen.scene;
    const root = task({ id: 'task_c', kind: 'collaborate', status: 'failed', fork_id: 'fork_1' });
    backend.tasks = [root];
    show({ state: 'failed' });
    await fireEvent.click(await page.findByRole('button', { name: 'Try again' }));
    await waitFor(() => expect(backend.calls.at(-1)).toBe('POST /v1/tasks/task_c/retry'));
    expect(backend.bodies.at(-1)).toEqual({});
  });
  test('agents that repeated themselves try again with a higher limit', async () => {
    const { backend, ws } = screen.scene;
    const error = { code: 'loop' as const, message: 'They were repeating themselves.' };
    const root = task({ id: 'task_c', kind: 'collaborate', status: 'failed', fork_id: 'fork_1', error });
    backend.tasks = [root];
    ws.tasks.put(root);
    show({ state: 'failed' });
    await fireEvent.click(await page.findByRole('button', { name: 'Try again' }));
    await waitFor(() => expect(backend.bodies.at(-1)).toEqual({ guard: 8 }));
  });
  test('their draft leads to its review', async () => {
    const reviews = show({ state: 'done' }, 'res_1');
    await fireEvent.click(await page.findByRole('button', { name: 'Draft ready. Review and post' }));
    expect(reviews()).toBe(1);
    expect(page.queryByRole('button', { name: 'Stop' })).toBeNull();
  });
  test('the form sends agents in the order of their turns', async () => {
    const { backend, ws } = screen.scene;
    const names = ws.people.agents.map(agentName);
    screen.show(AskAgents, { message: message(), empty: null, onclose: () => undefined });
    const start = await page.findByRole<HTMLButtonElement>('button', { name: 'Start' });
    expect(start.disabled).toBe(true);
    const group = within(page.getByRole('group', { name: 'Agents' }));
    for (const name of [names[1]!, names[0]!]) await fireEvent.click(group.getByRole('checkbox', { name }));
    expect(group.getByText(`1. ${names[1]}, 2. ${names[0]}`)).toBeTruthy();
    await fireEvent.input(page.getByRole('textbox', { name: 'Goal' }), { target: { value: 'Agree.' } });
    await fireEvent.click(page.getByRole('switch', { name: 'Post the result without review' }));
    await fireEvent.click(start);
    await waitFor(() => expect(backend.calls).toContain('POST /v1/threads/thread_1/forks'));
    const sent = backend.bodies[backend.calls.indexOf('POST /v1/threads/thread_1/forks')];
    expect(sent).toMatchObject({
      message_id: 'msg_1',
      collaborators: [ws.people.agents[1]!.id, ws.people.agents[0]!.id],
      goal: 'Agree.',
      turns_max: 8,
      auto_publish: true,
    });
    await waitFor(() => expect(screen.app.router.panel).toMatchObject({ kind: 'dive', id: 'fork_new' }));
  });
  test('a draft waits in the inbox, and its fork loads it', async () => {
    const { backend, ws } = screen.scene;
    const actions = actionsOf(ws, screen.app.ui);
    await actions.refresh();
    backend.waiting = waiting({ drafts: [result({ status: 'draft', headline: 'Monday it is' })] });
    const mine = fork({ created_by: 'user_me', collaboration: collaboration({ state: 'done' }) });
    screen.scene.event('fork.updated', { fork: mine }, { fork_id: mine.id });
    await waitFor(() => expect(actions.count).toBe(1));
    expect(screen.app.ui.announcement).toBe('A draft is ready to review');
    screen.show(InboxPage, {});
    const list = within(await page.findByRole('list', { name: 'Results' }));
    await list.findByRole('link', { name: 'Draft ready. Review and post Monday it is' });
  });
});
