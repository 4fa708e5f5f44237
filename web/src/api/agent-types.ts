/**
 * API types of agents: profiles, versions, files, templates, previews, and the workspace's policy.
 * Generated from the OpenAPI document and narrowed as in types.ts.
 */
import type { components } from './schema';

type S = components['schemas'];
type Sent<T> = { [K in keyof T]-?: Exclude<T[K], undefined> };
type Narrow<T, N> = Omit<T, keyof N> & N;

export type AgentStatus = 'active' | 'inactive' | 'archived';
export type ToolKind = S['ToolKind'];

export interface AgentAvatar {
  emoji?: string | null;
  /** `#rrggbb` */
  color?: string | null;
  /** Picture; takes precedence over the emoji. */
  file_id?: string | null;
}
/** User IDs and `role:NAME`. Denials take precedence; an empty list of allowed subjects means everyone. */
export type AccessControl = S['AccessControl'];
export type Agency = S['Agency'];
/** Tool object of the OpenAI Responses format, discriminated by `type`. */
export interface AgentTool {
  type: string;
  /** Set by the server: whether the tool can run here. */
  available?: boolean;
  [field: string]: unknown;
}
export type AgentMemory = Partial<S['Memory']>;

/** An agent in lists, the snapshot, and chat; null access lists mean everyone. */
export type Agent = Narrow<
  Sent<S['AgentSummary']>,
  {
    avatar: AgentAvatar | null;
    status: AgentStatus;
    access_control: AccessControl | null;
    /** Model that replies: null without one, undefined while unknown (events omit it). */
    effective_model?: string | null;
  }
>;
/** A complete agent. */
export type AgentProfile = Agent &
  Narrow<
    Sent<Omit<S['Agent'], keyof S['AgentSummary']>>,
    { tools: AgentTool[]; memory: AgentMemory | null; agency: Agency | null }
  >;
export type BaseRef = S['Base'];
/** The profile with its bases merged; the list starts with the base and ends with the agent itself. */
export interface ResolvedAgent extends AgentProfile {
  resolved_from: BaseRef[];
}

/** Writable fields of an agent: the body of `POST /v1/agents`. */
export type AgentFields = Pick<
  AgentProfile,
  | 'name'
  | 'display_name'
  | 'description'
  | 'avatar'
  | 'instructions'
  | 'identity'
  | 'model'
  | 'max_output_tokens'
  | 'temperature'
  | 'top_p'
  | 'capabilities'
  | 'mentionable'
  | 'agency'
  | 'tools'
  | 'memory'
  | 'store'
  | 'store_required'
  | 'base_profile_id'
  | 'access_control'
  | 'metadata'
>;
export type NewAgent = Partial<AgentFields>;
/** Omitted fields are unchanged, null clears a field; in `metadata`, null removes one key. */
export type AgentPatch = Partial<
  Omit<AgentFields, 'metadata'> & { metadata: Record<string, string | null>; status: 'active' | 'inactive' }
>;

export type AgentVersion = Sent<S['VersionSummary']>;
export interface WholeVersion extends AgentVersion {
  snapshot: AgentProfile;
  resolved: AgentProfile;
}
export type AgentDiff = S['AgentDiff'];

export type FileSource = 'profile' | 'agent' | 'workspace';
export type AgentFile = Narrow<Sent<S['FileSummary']>, { source: FileSource }>;
export type WholeFile = AgentFile & { content: string };
export interface AgentExport {
  object: 'agent_export';
  format: number;
  agent: NewAgent & { base?: string | null };
  files: Record<string, string>;
}
export interface AgentImport {
  agent: NewAgent & { base?: string | null };
  files?: Record<string, string>;
}

/** Fields of a new agent, ready to be edited. */
export type AgentTemplate = Partial<AgentFields> & { object: string; name: string; instructions: string };

export type PreviewSegment = S['SystemPart'];
/** The prompt that a model would get for this agent. */
export type AgentPreview = Sent<S['Preview']>;

export type WorkspacePolicy = Sent<S['Policy']>;

/** The request fields of `POST /v1/responses` that "Try it" uses. */
export interface ResponseRequest {
  input: { role: 'user' | 'assistant'; content: string }[];
  instructions: string;
  model?: string;
  temperature?: number;
  top_p?: number;
  max_output_tokens?: number;
  store: false;
}
export interface ResponseObject {
  id: string;
  model: string;
  status: string;
  usage: { input_tokens: number; output_tokens: number; total_tokens: number } | null;
  error?: { code?: string; message?: string } | null;
  incomplete_details?: { reason?: string } | null;
}
/** Stream events that the client handles; others are ignored. */
export type ResponseEvent =
  | { type: 'response.output_text.delta'; delta: string }
  | {
      type: 'response.created' | 'response.completed' | 'response.incomplete' | 'response.failed';
      response: ResponseObject;
    }
  | { type: 'error'; message: string; code?: string | null };
