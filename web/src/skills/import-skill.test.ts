// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { ApiError } from '../api/problem';
import type { Skill } from '../api/skills';
import { repository } from '../test/make-code';
import { Screen } from '../test/screen';
import ImportSkill from './ImportSkill.svelte';

const screen = new Screen();
const repositories = [repository(), { ...repository(), id: 'repo_2', name: 'web' }];
const add = async (path: string) => {
  const button = page.getByRole('button', { name: 'Add' });
  expect(button.hasAttribute('disabled')).toBe(true);
  await fireEvent.input(page.getByRole('textbox', { name: 'Folder' }), { target: { value: path } });
  await fireEvent.click(button);
};

test('a folder of a repository becomes a skill', async () => {
  const skill = { id: 'skill_1', name: 'tides' } as Skill;
  const api = { import: vi.fn(() => Promise.resolve(skill)) };
  const onmade = vi.fn();
  screen.show(ImportSkill, { api, repositories, onmade, onclose: () => undefined });
  const choice = page.getByRole<HTMLSelectElement>('combobox', { name: 'Repository' });
  expect(Array.from(choice.options, (option) => option.text)).toEqual(['api', 'web']);
  await add(' skills/tides ');
  await vi.waitFor(() => expect(onmade).toHaveBeenCalledWith(skill));
  expect(api.import).toHaveBeenCalledWith('repo_1', 'skills/tides');
});

test('a folder that is not a skill keeps the dialog open, with the reason', async () => {
  const error = { code: 'bad_skill', message: 'SKILL.md, line 2: no name', param: 'path' };
  const problem = new ApiError(422, { error }, 'Failed');
  const onmade = vi.fn();
  const api = { import: () => Promise.reject(problem) };
  screen.show(ImportSkill, { api, repositories, onmade, onclose: () => undefined });
  await add('skills/tides');
  expect(await page.findByText(/SKILL\.md, line 2/)).toBeTruthy();
  expect(onmade).not.toHaveBeenCalled();
});
