import type { Component } from 'svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

export type SettingsPage =
  | ('profile' | 'notifications' | 'memory' | 'sign-in')
  | ('workspace' | 'members' | 'security' | 'integrations' | 'import' | 'export')
  | ('agents' | 'collections' | 'tools' | 'told' | 'styles')
  | ('model' | 'costs' | 'providers' | 'server' | 'nodes' | 'audit');
export interface PageEntry {
  key: SettingsPage;
  name: string;
  load: () => Promise<{ default: Component<Record<string, never>> }>;
  /** Only admins have this page. */
  admin?: boolean;
  /** For admins: only those of the server, who can list the nodes, have this page. */
  operator?: boolean;
  wide?: boolean;
}

/** Each page is loaded when it opens. */
export const GROUPS: { name: string; pages: PageEntry[] }[] = [
  {
    name: 'You',
    pages: [
      { key: 'profile', name: 'Profile', load: () => import('./Profile.svelte') },
      { key: 'notifications', name: 'Notifications', load: () => import('./Notifications.svelte') },
      { key: 'memory', name: 'Memory', load: () => import('./MemoryPage.svelte') },
      { key: 'sign-in', name: 'Sign-in and keys', load: () => import('./SignInPage.svelte') },
    ],
  },
  {
    name: 'People and channels',
    pages: [
      { key: 'workspace', name: 'Workspace', load: () => import('./General.svelte') },
      { key: 'members', name: 'Members', load: () => import('./Members.svelte') },
      { key: 'security', name: 'Security', load: () => import('./SecurityPage.svelte'), admin: true },
      { key: 'integrations', name: 'Integrations', load: () => import('./IntegrationsPage.svelte') },
      { key: 'import', name: 'Import', load: () => import('../imports/ImportPage.svelte'), admin: true },
      { key: 'export', name: 'Export', load: () => import('../exports/ExportPage.svelte'), admin: true },
    ],
  },
  {
    name: 'Agents',
    pages: [
      { key: 'agents', name: 'Agents', load: () => import('../agents/AgentsPage.svelte'), wide: true },
      {
        key: 'collections',
        name: 'Collections',
        load: () => import('../collections/CollectionsPage.svelte'),
        wide: true,
      },
      {
        key: 'tools',
        name: 'Tools',
        load: () => import('../tools/ToolsPage.svelte'),
        admin: true,
        wide: true,
      },
      { key: 'told', name: 'Told to all', load: () => import('./Told.svelte') },
      { key: 'styles', name: 'Styles', load: () => import('../reply-styles/StylesPage.svelte') },
    ],
  },
  {
    name: 'Model and costs',
    pages: [
      { key: 'model', name: 'Model', load: () => import('./ModelPage.svelte'), admin: true },
      { key: 'costs', name: 'Costs', load: () => import('./CostsPage.svelte'), wide: true },
    ],
  },
  {
    name: 'Server',
    pages: [
      {
        key: 'providers',
        name: 'Providers',
        load: () => import('../server/ProvidersPage.svelte'),
        admin: true,
        operator: true,
      },
      {
        key: 'server',
        name: 'Server',
        load: () => import('../server/ServerPage.svelte'),
        admin: true,
        operator: true,
      },
      {
        key: 'nodes',
        name: 'Nodes',
        load: () => import('../nodes/NodesPage.svelte'),
        admin: true,
        operator: true,
        wide: true,
      },
      { key: 'audit', name: 'Audit log', load: () => import('./Audit.svelte'), admin: true },
    ],
  },
];
/** Pages of earlier versions and other names, with the page that contains them now. */
const MOVED: Partial<Record<string, SettingsPage>> = {
  appearance: 'profile',
  password: 'sign-in',
  data: 'profile',
  devices: 'sign-in',
  sessions: 'sign-in',
  keys: 'sign-in',
  bots: 'integrations',
  webhooks: 'integrations',
  commands: 'integrations',
  invites: 'members',
  channels: 'workspace',
  context: 'told',
  'about-us': 'told',
  personas: 'styles',
  repositories: 'tools',
  runners: 'tools',
  usage: 'costs',
  budgets: 'costs',
};
export const movedTo = (key: string | null): SettingsPage | undefined => MOVED[key ?? ''];
/** Pages whose routes accept guests. */
const OF_GUESTS: SettingsPage[] = ['profile', 'notifications', 'sign-in', 'members'];
export const isFor = (page: PageEntry, ws: WorkspaceState): boolean =>
  ws.people.isGuest ? OF_GUESTS.includes(page.key) : !page.admin || ws.people.isAdmin;
export const pageOf = (key: string): PageEntry | undefined =>
  GROUPS.flatMap((g) => g.pages).find((p) => p.key === key);
