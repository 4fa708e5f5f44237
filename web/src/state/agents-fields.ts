import type {
  Agency,
  AgentFields,
  AgentMemory,
  AgentPatch,
  AgentReflection,
  NewAgent,
} from '../api/agent-types';
import { same } from '../lib/merge';
import { storedTool } from './agents-tools';

export type FieldKey = keyof AgentFields;

/** Labels of fields, in display order. */
export const FIELD_LABELS: Record<FieldKey, string> = {
  name: 'Handle',
  display_name: 'Name',
  description: 'Description',
  avatar: 'Picture',
  instructions: 'Instructions',
  identity: 'Identity',
  model: 'Model',
  max_output_tokens: 'Maximum output tokens',
  temperature: 'Temperature',
  top_p: 'Top P',
  base_profile_id: 'Based on',
  persona_id: 'Character',
  prompting: 'Style',
  skills: 'Skills',
  mentionable: 'Can be mentioned',
  role: 'Orchestrator',
  agency: 'Role in the team',
  capabilities: 'Tags',
  access_control: 'Who may ask it',
  editors: 'Who may change it',
  tools: 'Can do',
  memory: 'Answers kept',
  sentiment: 'Adapting to people',
  reflection: 'Reflection',
  store: 'Store responses',
  store_required: 'Require storage',
  metadata: 'Labels for programs',
};
export const FIELDS = Object.keys(FIELD_LABELS) as FieldKey[];

export const NO_AGENCY: Required<Agency> = {
  role_description: null,
  responsibilities: [],
  expected_outputs: [],
  constraints: [],
  delegation_rules: [],
};

/** Fields of a new, unedited agent. */
export const blank = (): AgentFields => ({
  name: '',
  display_name: null,
  description: null,
  avatar: null,
  instructions: '',
  identity: null,
  model: null,
  max_output_tokens: null,
  temperature: null,
  top_p: null,
  capabilities: [],
  mentionable: true,
  role: 'specialist',
  agency: null,
  tools: [],
  memory: null,
  prompting: null,
  sentiment: null,
  reflection: null,
  store: null,
  store_required: null,
  base_profile_id: null,
  persona_id: null,
  skills: null,
  access_control: null,
  editors: [],
  metadata: {},
});

/** Null, empty text, empty lists, and objects of these are equivalent to an unset field. */
const isNothing = (x: unknown): boolean =>
  x === null ||
  x === undefined ||
  x === '' ||
  (typeof x === 'object' && Object.values(x).every((v) => isNothing(v)));
const orNull = <T>(x: T | null | undefined): T | null => (isNothing(x) ? null : x!);

function tidyMemory(m: AgentMemory | null | undefined): AgentMemory | null {
  const kept = Object.entries(m ?? {}).filter(([, v]) => !isNothing(v));
  return kept.length ? Object.fromEntries(kept) : null;
}

/** The fields that are set; null if none is. */
function setFields<T extends object>(x: T | null | undefined): T | null {
  const kept = Object.entries(x ?? {}).filter(([, v]) => v !== null && v !== undefined);
  return kept.length ? (Object.fromEntries(kept) as T) : null;
}
function tidyReflection(r: AgentReflection | null | undefined): AgentReflection | null {
  const metaprompts = (r?.metaprompts ?? []).map((m) => ({
    ...setFields(m)!,
    trigger: setFields(m.trigger)!,
  }));
  return r?.interval_turns || metaprompts.length
    ? setFields({ interval_turns: r?.interval_turns, metaprompts })
    : null;
}

/** Canonical form of a value, so that equal texts mean equal values. */
export function tidy(f: Partial<AgentFields>): AgentFields {
  const all = { ...blank(), ...f };
  return {
    ...all,
    display_name: orNull(all.display_name),
    description: orNull(all.description),
    // Only the default agent has the role `primary`, which its profile cannot set.
    role: all.role === 'primary' ? 'specialist' : all.role,
    avatar: orNull(
      Object.fromEntries((['emoji', 'color', 'file_id'] as const).map((k) => [k, all.avatar?.[k] || null])),
    ),
    identity: orNull(all.identity),
    model: orNull(all.model),
    agency: isNothing(all.agency) ? null : { ...NO_AGENCY, ...all.agency },
    access_control: orNull(all.access_control),
    memory: tidyMemory(all.memory),
    // Nulls are kept: for an agent with a base, they differ from an unset field.
    prompting: all.prompting && {
      profile: all.prompting.profile ?? null,
      compaction: all.prompting.compaction ?? null,
    },
    sentiment: setFields(all.sentiment),
    reflection: tidyReflection(all.reflection),
    tools: all.tools.map(storedTool),
  };
}

/** Writable part of an agent, of one of its versions, or of a template. */
export function fieldsOf(p: { [K in FieldKey]?: AgentFields[K] | null }): AgentFields {
  const said = (k: FieldKey) => p[k] !== undefined && p[k] !== null;
  const picked = Object.fromEntries(FIELDS.filter(said).map((k) => [k, p[k]]));
  return tidy(picked as Partial<AgentFields>);
}

export function changedFields(before: AgentFields, after: AgentFields): FieldKey[] {
  const [a, b] = [tidy(before), tidy(after)];
  return FIELDS.filter((k) => !same(a[k], b[k]));
}

/** Patch that turns `before` into `after`. */
export function patchOf(before: AgentFields, after: AgentFields): AgentPatch {
  const next = tidy(after);
  const patch: Record<string, unknown> = {};
  for (const k of changedFields(before, after)) patch[k] = next[k];
  if (patch.metadata) {
    const gone = Object.keys(before.metadata).filter((k) => !(k in next.metadata));
    patch.metadata = { ...next.metadata, ...Object.fromEntries(gone.map((k) => [k, null])) };
  }
  return patch;
}

/** Body of the create request: only fields that are set, so that the server's defaults apply to the others. */
export function newOf(fields: AgentFields): NewAgent {
  const all = tidy(fields);
  const start = tidy(blank());
  const kept = FIELDS.filter((k) => !same(all[k], start[k]));
  const { name, instructions } = all;
  return { ...Object.fromEntries(kept.map((k) => [k, all[k]])), name, instructions };
}

/** True if the agent can delegate work. */
export const delegates = (f: Pick<AgentFields, 'role' | 'tools'>): boolean =>
  f.role === 'orchestrator' || f.tools.some((tool) => tool.type === 'delegate');

export const HANDLE = /^[a-z0-9][a-z0-9_-]{0,63}$/;
/** "Research desk" becomes "research-desk". */
export const handleFrom = (text: string): string =>
  text
    .replaceAll('ß', 'ss')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, '-')
    .replace(/^[-_]+|-+$/g, '')
    .slice(0, 64);
