// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { AgentDraft } from '../state/agents-draft.svelte';
import { blank } from '../state/agents-fields';
import { Screen } from '../test/screen';
import { AgentsContext } from './agents-context.svelte';
import DescribeSection from './DescribeSection.svelte';

const screen = new Screen();
const field = () => page.getByRole<HTMLTextAreaElement>('textbox', { name: 'What should this agent do?' });

test('the description of a new agent is restored after the page is left', async () => {
  const context = new AgentsContext(screen.ws);
  const show = () => {
    const draft = new AgentDraft(context.api, screen.ws.store, 'k', blank());
    return screen.show(DescribeSection, { draft, context });
  };
  const { unmount } = show();
  await fireEvent.input(field(), { target: { value: 'Drafts release notes' } });
  unmount();
  show();
  expect(field().value).toBe('Drafts release notes');
});
