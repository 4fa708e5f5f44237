// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { AgentsContext } from '../agents/agents-context.svelte';
import { CodeRoutes, repository } from '../test/make-code';
import { Screen } from '../test/screen';
import SkillsView from './SkillsView.svelte';

const screen = new Screen();

test('skills come from allowed repositories, too', async () => {
  const code = new CodeRoutes();
  const of = (state: 'offered' | 'allowed') => repository({ id: `repo_${state}`, name: state, state });
  code.repositories = [of('offered'), of('allowed')];
  screen.scene.backend.code = code;
  screen.show(SkillsView, { context: new AgentsContext(screen.ws), id: '', root: '/agents' });
  await fireEvent.click(await page.findByRole('button', { name: 'From a repository' }));
  const choice = await page.findByRole<HTMLSelectElement>('combobox', { name: 'Repository' });
  expect(Array.from(choice.options, (option) => option.text)).toEqual(['allowed']);
});
