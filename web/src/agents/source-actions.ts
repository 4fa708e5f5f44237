import type { AgentProfile, PolicyPatch } from '../api/agent-types';
import { to } from '../lib/router.svelte';
import { SOURCES, type PromptSource } from '../lib/sources';
import type { AgentsContext } from './agents-context.svelte';

/** An agent, and the conversation in which it would reply. */
export interface Told {
  context: AgentsContext;
  profile: AgentProfile;
  place: string;
}
/** Where a source is changed: in a file of the agent, or on a page. */
export type SourceEdit = { file: string } | { href: string };

/** Sources whose text is in a file of the agent. */
const FILES: readonly PromptSource['name'][] = ['agents_md', 'tools_md', 'notes'];

/** Where the user can change the text of a source; null if nowhere. */
export function editOf(s: PromptSource, { context, profile }: Told): SourceEdit | null {
  if (FILES.includes(s.name) && context.mayEdit(profile)) return { file: SOURCES[s.name][1]! };
  if (!s.can_edit) return null;
  const { slug } = context.ws;
  if (s.owner.type === 'agent') return { href: to.agent(slug, s.owner.id ?? profile.id, 'edit') };
  if (s.name === 'about') return { href: to.settings(slug, 'memory') };
  if (s.name === 'skills') return { href: `${to.settings(slug, 'agents')}?skill=` };
  if (s.name === 'addons') return { href: to.settings(slug, 'styles') };
  if (s.name === 'persona') {
    const persona = profile.persona_id ? `?persona=${profile.persona_id}` : '';
    return { href: to.settings(slug, 'styles') + persona };
  }
  return { href: to.settings(slug, 'told') };
}

/** What turns a source on: a change, or the page with its switch. */
export type SourceSwitch = { turnOn: () => Promise<unknown> } | { href: string };

/** The switch that stops a source, if the user can change it. */
export function switchOf(s: PromptSource, told: Told): SourceSwitch | null {
  if (s.state !== 'off') return null;
  const { context, profile, place } = told;
  const { ws } = context;
  switch (s.because) {
    case 'off_workspace':
      return context.isAdmin ? workspaceSwitch(s, context) : null;
    case 'off_agent':
      return context.mayEdit(profile) ? { href: to.agent(ws.slug, profile.id, 'edit') } : null;
    case 'off_person':
      return { href: to.settings(ws.slug, 'memory') };
    case 'off_thread':
      if (!ws.people.canWrite) return null;
      return { turnOn: async () => ws.learnThread(await ws.api.patchThread(place, { memory: 'on' })) };
    default:
      return null;
  }
}

function workspaceSwitch({ name }: PromptSource, { api, policy, ws }: AgentsContext): SourceSwitch {
  const change = (body: PolicyPatch): SourceSwitch => ({
    turnOn: async () => api.changePolicy(ws.id, await api.policy(ws.id), body),
  });
  if (name === 'workspace') return change({ workspace_context: { enabled: true } });
  if (name === 'adaptation') return change({ adaptation_allowed: true });
  if (name === 'memories' && policy?.memory.enabled === false) return change({ memory: { enabled: true } });
  return { href: to.settings(ws.slug, 'told') };
}
