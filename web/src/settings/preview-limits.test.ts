// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { AgentsApi } from '../api/agents';
import type { PreviewMax } from '../api/push';
import { Screen } from '../test/screen';
import { StoredPolicy } from '../test/versioned';
import { limitTexts } from './preview-limits';
import PreviewLimits from './PreviewLimits.svelte';

const screen = new Screen();
const max = (x: Partial<PreviewMax> = {}): PreviewMax => ({
  ...{ public: 'full', private: 'full', private_mail: 'sender' },
  ...x,
});
const texts = (limits: PreviewMax, preview: 'full' | 'sender' | 'none', mail = true) =>
  limitTexts(limits, { workspace: 'Northwind', preview, mail });

test('a person reads where the workspace shows less than they chose', () => {
  expect(texts(max(), 'full', false)).toEqual([]);
  expect(texts(max(), 'full')).toEqual([
    'In emails about private conversations, Northwind shows only the sender.',
  ]);
  expect(texts(max(), 'sender')).toEqual([]);
  const strict = max({ public: 'sender', private: 'none', private_mail: 'none' });
  expect(texts(strict, 'full')).toEqual([
    'In public channels, Northwind shows only the sender.',
    'In private conversations, Northwind shows neither sender nor text.',
  ]);
  expect(texts(strict, 'sender')).toEqual([
    'In private conversations, Northwind shows neither sender nor text.',
  ]);
  expect(texts(strict, 'none')).toEqual([]);
});
test('an admin’s choice is stored at once, and others are not touched', async () => {
  const stored = new StoredPolicy();
  screen.scene.backend.objects.set('/v1/workspaces/ws_1/policy', stored);
  const api = screen.ws.api.part(AgentsApi);
  const policy = await api.policy('ws_1');
  let changed = policy;
  screen.show(PreviewLimits, {
    policy,
    api,
    onchange: (now: typeof policy) => (changed = now),
    onclose: () => undefined,
  });
  const group = within(page.getByRole('group', { name: 'Private conversations' }));
  await fireEvent.click(group.getByRole('button', { name: 'None' }));
  await expect.poll(() => changed.preview_max).toEqual(max({ private: 'none' }));
  expect(stored.bodies).toEqual([{ preview_max: { private: 'none' } }]);
});
