import type { TaskContext } from '../api/types';

/** Part of a prompt, or of what could be one. */
export type PromptSource = TaskContext['sources'][number];

/** Names of sources, and the files that contain them. */
export const SOURCES: Record<PromptSource['name'], [label: string, file?: string]> = {
  preamble: ['Introduction'],
  required: ['Told to every agent first'],
  base: ['Based on'],
  instructions: ['Instructions'],
  identity: ['Identity'],
  persona: ['Character'],
  agency: ['Role in the team'],
  agents_md: ['Working rules', 'AGENTS.md'],
  tools_md: ['Notes on tools', 'TOOLS.md'],
  skills: ['Skills'],
  addons: ['Style'],
  adaptation: ['Adaptation'],
  conversation: ['Place and people'],
  workspace: ['About the workspace'],
  notes: ['Agent’s notes', 'MEMORY.md'],
  fork_header: ['Deep dive'],
  summary: ['Older messages'],
  messages: ['Messages'],
  about: ['About the person', 'USER.md'],
  memories: ['Memories'],
  knowledge: ['Collections'],
  files: ['Attached files'],
  requester: ['Time and requester'],
  trigger: ['Question'],
  tools: ['Tools'],
};
export const sourceLabel = (s: PromptSource): string => SOURCES[s.name][0];

const REASONS: Record<NonNullable<PromptSource['because']>, string> = {
  no_text: 'Empty',
  not_approved: 'Not approved yet',
  no_room: 'Cut: the model’s context was full',
  personal: 'Personal',
  model_without_tools: 'Off: the model takes no functions',
  guests: 'Off: a guest reads this',
  off_server: 'Off for this server',
  off_workspace: 'Off for the workspace',
  off_agent: 'Off for the agent',
  off_person: 'Off for the person',
  off_thread: 'Off in this thread',
};
/** State of a source: "Off for the workspace"; blank if all of it was sent. */
export function stateText(s: PromptSource): string {
  if (s.state === 'sent') return '';
  if (s.state === 'hidden') return s.because === 'personal' ? 'Hidden: personal' : 'Hidden';
  return s.because ? REASONS[s.because] : 'Not sent';
}

const OWNERS: Record<PromptSource['owner']['type'], string> = {
  server: 'OpenVibe',
  workspace: 'Workspace',
  agent: 'Agent',
  person: 'Person',
  conversation: 'This conversation',
};
/** Where a source comes from: "Vibe", "Harbour". */
export const ownerText = ({ owner }: PromptSource): string =>
  owner.type === 'conversation' ? OWNERS.conversation : (owner.name ?? OWNERS[owner.type]);

/** True if something was sent, or may have been. */
export const isInPrompt = (s: PromptSource): boolean =>
  s.state === 'sent' || s.state === 'cut' || (s.state === 'hidden' && s.tokens > 0);

/** Parts of a prompt that come with a conversation. */
const CONVERSATION: readonly PromptSource['name'][] = [
  'fork_header',
  'summary',
  'messages',
  'files',
  'trigger',
];
/** Tokens of a prompt: "1,222 tokens before the conversation · 1,313 for tools · 25,121 left". */
export function sizeText(sources: readonly PromptSource[], left: number | null = null): string {
  const nf = new Intl.NumberFormat('en');
  const sum = (fits: (s: PromptSource) => boolean) =>
    sources.filter(fits).reduce((tokens, s) => tokens + s.tokens, 0);
  const tools = sum((s) => s.name === 'tools');
  const conversation = sum((s) => CONVERSATION.includes(s.name));
  const before = sum(() => true) - tools - conversation;
  return [
    `${nf.format(before)} ${before === 1 ? 'token' : 'tokens'} before the conversation`,
    ...(conversation ? [`${nf.format(conversation)} in it`] : []),
    ...(tools ? [`${nf.format(tools)} for tools`] : []),
    ...(left === null ? [] : [`${nf.format(left)} left`]),
  ].join(' · ');
}
