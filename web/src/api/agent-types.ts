/** What the contract says of agents: profiles, versions, files, templates, previews and the workspace's policy. */

export type AgentStatus = 'active' | 'inactive' | 'archived';
export type AgentRole = 'primary' | 'specialist' | 'reviewer' | 'orchestrator';

export interface AgentAvatar {
  emoji?: string | null;
  /** `#rrggbb` */
  color?: string | null;
}
/** User ids and `role:NAME`. Denied wins; nobody allowed by name means everyone. */
export interface AccessControl {
  allowed_subjects: string[];
  denied_subjects: string[];
}
export interface Agency {
  role_description?: string | null;
  responsibilities: string[];
  expected_outputs: string[];
  constraints: string[];
  delegation_rules: string[];
}
/** A tool object of the OpenAI Responses format, told apart by `type`. */
export interface AgentTool {
  type: string;
  /** Said by the server: can anything here run it? */
  available?: boolean;
  [field: string]: unknown;
}
export interface AgentMemory {
  conversation_retention_days?: number | null;
  summary_enabled?: boolean | null;
  summary_model?: string | null;
  scopes?: Record<string, unknown> | null;
  vector_store_ids?: string[];
}

/** An agent as lists, the snapshot and chat show it. */
export interface Agent {
  id: string;
  object: string;
  /** Its handle. */
  name: string;
  display_name: string | null;
  description: string | null;
  avatar: AgentAvatar | null;
  capabilities: string[];
  role: AgentRole;
  /** Null: the server's default. */
  model: string | null;
  mentionable: boolean;
  is_default: boolean;
  is_system: boolean;
  status: AgentStatus;
  version: number;
  base_profile_id: string | null;
  /** Null: everyone. */
  access_control: AccessControl | null;
  created_at: string;
  updated_at: string;
}
/** A whole agent. */
export interface AgentProfile extends Agent {
  workspace_id: string;
  instructions: string;
  /** Null: nothing of its own. */
  identity: string | null;
  /** Null: that of the base. */
  max_output_tokens: number | null;
  temperature: number | null;
  top_p: number | null;
  agency: Agency | null;
  tools: AgentTool[];
  sandbox_policy_id: string | null;
  memory: AgentMemory | null;
  prompting: Record<string, unknown> | null;
  sentiment: Record<string, unknown> | null;
  trust: Record<string, unknown> | null;
  persona_id: string | null;
  store: boolean | null;
  store_required: boolean | null;
  metadata: Record<string, string>;
  created_by: string | null;
}
export interface BaseRef {
  id: string;
  name: string;
  version: number;
}
/** With its bases merged; the list has the base first and the agent itself last. */
export interface ResolvedAgent extends AgentProfile {
  resolved_from: BaseRef[];
  sandbox: SandboxPolicy | null;
}

/** What may be written of an agent: the fields of `POST /v1/agents`. */
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
  | 'role'
  | 'mentionable'
  | 'agency'
  | 'tools'
  | 'sandbox_policy_id'
  | 'memory'
  | 'store'
  | 'store_required'
  | 'base_profile_id'
  | 'access_control'
  | 'metadata'
>;
export type NewAgent = Partial<AgentFields>;
/** What is left out stays, null empties; in `metadata`, null removes one key. */
export type AgentPatch = Partial<
  Omit<AgentFields, 'metadata'> & { metadata: Record<string, string | null>; status: 'active' | 'inactive' }
>;

export interface AgentVersion {
  object: 'agent_version';
  agent_id: string;
  version: number;
  change_summary: string | null;
  changed_by: string | null;
  changed_at: string;
}
export interface WholeVersion extends AgentVersion {
  snapshot: AgentProfile;
  resolved: AgentProfile;
}
export interface FieldChange {
  field: string;
  before: unknown;
  after: unknown;
}
export interface AgentDiff {
  agent_id: string;
  from: number;
  to: number;
  changes: FieldChange[];
}

export type FileSource = 'profile' | 'agent' | 'workspace';
export interface AgentFile {
  path: string;
  source: FileSource;
  size_bytes: number;
  version: number | null;
  updated_at: string | null;
  updated_by: string | null;
}
export interface WholeFile extends AgentFile {
  content: string;
}
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

/** The fields of a new agent, ready to be changed. */
export type AgentTemplate = Partial<AgentFields> & { object: string; name: string; instructions: string };

export interface PreviewSegment {
  name: 'required' | 'base' | 'instructions' | 'identity' | 'files' | 'agency' | (string & {});
  tokens: number;
}
/** What a model would be told by this agent. */
export interface AgentPreview {
  system: string;
  tokens: number;
  segments: PreviewSegment[];
  model: string | null;
  max_output_tokens: number | null;
  temperature: number | null;
  top_p: number | null;
  resolved_from: BaseRef[];
}

export interface WorkspacePolicy {
  required_text: string | null;
  /** Null: every kind. */
  allowed_tools: string[] | null;
  sandbox_policy_id: string | null;
  members_write_agents: boolean;
}
export interface SandboxPolicy {
  id: string;
  object: string;
  name: string;
  image: string | null;
  cpu_max: number | null;
  memory_mb_max: number | null;
  network: 'none' | 'allowlist' | 'full';
  allowed_hosts: string[];
  timeout_s_max: number | null;
  filesystem: 'none' | 'read_only' | 'read_write';
}

/** The part of `POST /v1/responses` that "Try it" uses. */
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
/** The events of a streamed response that matter here; others are skipped. */
export type ResponseEvent =
  | { type: 'response.output_text.delta'; delta: string }
  | {
      type: 'response.created' | 'response.completed' | 'response.incomplete' | 'response.failed';
      response: ResponseObject;
    }
  | { type: 'error'; message: string; code?: string | null };
