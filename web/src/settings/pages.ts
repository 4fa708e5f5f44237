import type { Component } from 'svelte';
import type { SettingsPage } from '../lib/router.svelte';

export interface PageEntry {
  key: SettingsPage;
  name: string;
  load: () => Promise<{ default: Component<Record<string, never>> }>;
  /** Others do not have it in their tabs. */
  admin?: boolean;
  wide?: boolean;
}
/** Every page is loaded when it opens. */
export const GROUPS: { name: string; pages: PageEntry[] }[] = [
  {
    name: 'You',
    pages: [
      { key: 'profile', name: 'Profile', load: () => import('./Profile.svelte') },
      { key: 'password', name: 'Password', load: () => import('./Password.svelte') },
      { key: 'sessions', name: 'Devices', load: () => import('./Devices.svelte') },
      { key: 'keys', name: 'Keys', load: () => import('./Keys.svelte') },
      { key: 'data', name: 'My data', load: () => import('./MyData.svelte') },
    ],
  },
  {
    name: 'Workspace',
    pages: [
      { key: 'workspace', name: 'General', load: () => import('./General.svelte') },
      { key: 'members', name: 'Members', load: () => import('./Members.svelte') },
      { key: 'invites', name: 'Invites', load: () => import('./Invites.svelte'), admin: true },
      { key: 'agents', name: 'Agents', load: () => import('../agents/AgentsPage.svelte'), wide: true },
      { key: 'usage', name: 'Usage', load: () => import('./UsagePage.svelte'), wide: true },
      { key: 'audit', name: 'Audit log', load: () => import('./Audit.svelte'), admin: true },
      { key: 'model', name: 'Model', load: () => import('./ModelPage.svelte'), admin: true },
    ],
  },
];
export const pageOf = (key: SettingsPage): PageEntry =>
  GROUPS.flatMap((g) => g.pages).find((p) => p.key === key)!;
