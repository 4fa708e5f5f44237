import type { Component } from 'svelte';
import type { SettingsPage } from '../lib/router.svelte';
import { archivedChannels } from '../state/channel-actions';
import type { WorkspaceState } from '../state/workspace.svelte';

export interface PageEntry {
  key: SettingsPage;
  name: string;
  load: () => Promise<{ default: Component<Record<string, never>> }>;
  /** Only admins have this tab. */
  admin?: boolean;
  /** For members: returns true if the page has content for this user. */
  also?: (ws: WorkspaceState) => boolean;
  /** For admins: only those who can list the nodes have this tab. */
  operator?: boolean;
  wide?: boolean;
}
/** Each page is loaded when it opens. */
export const GROUPS: { name: string; pages: PageEntry[] }[] = [
  {
    name: 'You',
    pages: [
      { key: 'profile', name: 'Profile', load: () => import('./Profile.svelte') },
      { key: 'password', name: 'Password', load: () => import('./Password.svelte') },
      { key: 'sessions', name: 'Devices', load: () => import('./Devices.svelte') },
      { key: 'memory', name: 'Memory', load: () => import('./MyMemory.svelte') },
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
      {
        key: 'channels',
        name: 'Channels',
        load: () => import('./ChannelsPage.svelte'),
        admin: true,
        also: (ws) =>
          archivedChannels(ws).length > 0 || ws.channels.rooms.some((c) => c.created_by === ws.myId),
      },
      { key: 'agents', name: 'Agents', load: () => import('../agents/AgentsPage.svelte'), wide: true },
      { key: 'styles', name: 'Styles', load: () => import('../reply-styles/StylesPage.svelte') },
      { key: 'context', name: 'Memory and context', load: () => import('./MemoryRules.svelte') },
      { key: 'about-us', name: 'What agents know about us', load: () => import('./AboutUs.svelte') },
      {
        key: 'tools',
        name: 'Tools',
        load: () => import('../tools/ToolsPage.svelte'),
        admin: true,
        wide: true,
      },
      { key: 'usage', name: 'Usage', load: () => import('./UsagePage.svelte'), wide: true },
      {
        key: 'budgets',
        name: 'Budgets',
        load: () => import('./BudgetsPage.svelte'),
        admin: true,
        wide: true,
      },
      { key: 'audit', name: 'Audit log', load: () => import('./Audit.svelte'), admin: true },
      { key: 'model', name: 'Model', load: () => import('./ModelPage.svelte'), admin: true },
    ],
  },
  {
    name: 'Server',
    pages: [
      {
        key: 'nodes',
        name: 'Nodes',
        load: () => import('../nodes/NodesPage.svelte'),
        admin: true,
        operator: true,
        wide: true,
      },
    ],
  },
];
export const isFor = (page: PageEntry, ws: WorkspaceState): boolean =>
  !page.admin || ws.people.isAdmin || page.also?.(ws) === true;
export const pageOf = (key: SettingsPage): PageEntry =>
  GROUPS.flatMap((g) => g.pages).find((p) => p.key === key)!;
