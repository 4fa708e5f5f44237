import { AdminApi } from '../api/admin';
import { AgentsApi } from '../api/agents';
import { CollectionsApi } from '../api/collections';
import { HooksApi } from '../api/hooks';
import { IdentityApi } from '../api/identity';
import { MemoryApi } from '../api/memory';
import { PersonasApi } from '../api/personas';
import { PushApi } from '../api/push';
import { ReplyStylesApi } from '../api/reply-styles';
import { ServerApi } from '../api/server';
import { ToolsApi } from '../api/tools';
import type { App } from '../context';
import { money } from '../lib/numbers';
import { ago, plural } from '../lib/time';
import type { WorkspaceState } from '../state/workspace.svelte';
import { STATUS } from './model-text';
import type { SettingsPage } from './pages';
import { monthOf } from './usage';

/** Line below the name of a page, where the list of pages is a page of its own. */
export const STATES: Record<SettingsPage, (ws: WorkspaceState, app: App) => string | Promise<string>> = {
  profile: (ws) => `@${ws.people.me.handle}`,
  notifications: async (ws) => {
    const { push, paused_until: until } = await ws.api.part(PushApi).settings();
    return !push ? 'Off' : until && Date.parse(until) > Date.now() ? 'Paused' : 'On';
  },
  memory: async (ws) => ((await ws.api.part(MemoryApi).settings()).enabled ? 'On' : 'Off'),
  'sign-in': async (ws) => {
    const api = ws.api.part(AdminApi);
    const [devices, keys] = await Promise.all([api.sessions(), api.keys()]);
    return `${plural(devices.length, 'device')}, ${plural(keys.length, 'key')}`;
  },
  workspace: (ws) => `${location.host}/${ws.slug}`,
  members: (ws) => plural(ws.people.members.size, 'member'),
  security: async (ws) => {
    const { sign_in } = await ws.api.part(AdminApi).workspace(ws.id);
    return sign_in.second_factor === 'required' ? 'Second factor required' : 'No second factor required';
  },
  integrations: async (ws) =>
    ws.people.canWrite ? plural((await ws.api.part(HooksApi).all()).length, 'webhook') : '',
  import: () => 'Slack, Mattermost, Zulip, Discord, OpenVibe',
  export: () => 'OpenVibe, Slack',
  agents: (ws) => `${ws.people.agents.length} active`,
  collections: async (ws) => plural((await ws.api.part(CollectionsApi).all()).length, 'collection'),
  tools: async (ws) => {
    const servers = (await ws.api.part(ToolsApi).all()).filter((tool) => tool.kind === 'mcp');
    return plural(servers.length, 'server');
  },
  told: async (ws) => {
    const { required_text, workspace_context: context } = await ws.api.part(AgentsApi).policy(ws.id);
    return `${required_text ? 'Text' : 'No text'}, workspace context ${context.enabled ? 'on' : 'off'}`;
  },
  styles: async (ws) => {
    const [{ presets }, characters] = await Promise.all([
      ws.api.part(ReplyStylesApi).get(),
      ws.api.part(PersonasApi).all(),
    ]);
    return `${plural(presets.length, 'style')}, ${plural(characters.length, 'character')}`;
  },
  model: async (ws) => {
    const api = ws.api.part(AdminApi);
    const { source, status, checked_at } = await api.model(ws.id);
    if (source === 'none') return 'No model connected';
    if (status !== 'ok') return STATUS[status].word;
    const model = await api.defaultModel();
    return [model?.id, checked_at && `tested ${ago(checked_at).replace('Today', 'today')}`]
      .filter(Boolean)
      .join(', ');
  },
  costs: async (ws) => {
    const month = monthOf(new Date());
    const of = ws.people.isAdmin ? {} : ({ user_id: 'me' } as const);
    const { total } = await ws.api.part(AdminApi).usage({ from: month, to: month, group_by: 'model', ...of });
    return `${total.cost_usd === null ? plural(total.tasks, 'request') : money(total.cost_usd)} this month`;
  },
  providers: async (ws) => plural((await ws.api.part(IdentityApi).providers()).length, 'provider'),
  server: async (ws) => `OpenVibe ${(await ws.api.part(ServerApi).get()).version}`,
  nodes: async (ws) => plural((await ws.api.part(AdminApi).nodes()).data.length, 'node'),
  audit: async (ws) => {
    const [newest] = (await ws.api.part(AdminApi).audit({})).data;
    return newest ? `Newest entry ${ago(newest.created_at)}` : 'No entries';
  },
};
