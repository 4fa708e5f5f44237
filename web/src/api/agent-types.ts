/** API types of agents: profiles, versions, files, templates, previews, and the workspace's policy. */
import type { components } from './schema';

type S = components['schemas'];

export type AgentStatus = S['AgentStatus'];
export type ToolKind = S['ToolKind'];
/** Reason why replies cannot use a tool. */
export type UnavailableBecause = S['UnavailableBecause'];
export type AgentAvatar = S['Avatar'];
/** User IDs and `role:NAME`. Denials take precedence; an empty list of allowed subjects means everyone. */
export type AccessControl = S['AccessControl'];
export type Agency = S['Agency'];
/** Tool object of the OpenAI Responses format, discriminated by `type`. */
export type AgentTool = S['Tool'];
/** Tool that lets an agent delegate work to others. */
export type DelegateTool = Extract<AgentTool, { type: 'delegate' }>;
export type AgentMemory = Partial<S['Memory']>;
/** Reply style and compaction strategy. */
export type AgentPrompting = S['Prompting'];
/** Scoring of messages from people who allow it; unset fields follow the profile. */
export type AgentSentiment = Partial<NonNullable<NewAgent['sentiment']>>;
/** Reflections on conversations with people who allow it. */
export type AgentReflection = Partial<NonNullable<NewAgent['reflection']>>;
export type Metaprompt = NonNullable<AgentReflection['metaprompts']>[number];
export type MetapromptTrigger = Metaprompt['trigger'];

/** An agent in lists, the snapshot, and chat; null access lists mean everyone. */
export type Agent = S['AgentSummary'];
/** A complete agent. */
export type AgentProfile = S['Agent'];
export type BaseRef = S['Base'];

/** Writable fields of an agent: the body of `POST /v1/agents`. */
export type AgentFields = Pick<
  AgentProfile,
  | 'name'
  | 'role'
  | 'display_name'
  | 'description'
  | 'instructions'
  | 'identity'
  | 'model'
  | 'max_output_tokens'
  | 'temperature'
  | 'top_p'
  | 'capabilities'
  | 'mentionable'
  | 'agency'
  | 'store'
  | 'store_required'
  | 'persona_id'
  | 'skills'
  | 'base_profile_id'
  | 'access_control'
  | 'editors'
  | 'metadata'
> & {
  avatar: AgentAvatar | null;
  tools: AgentTool[];
  memory: AgentMemory | null;
  prompting: AgentPrompting | null;
  sentiment: AgentSentiment | null;
  reflection: AgentReflection | null;
};
export type NewAgent = S['NewAgent'];
/** A draft, which may have no name yet, and the agent that it changes. */
export type PreviewForm = S['PreviewForm'];
/** Omitted fields are unchanged, null clears a field; in `metadata`, null removes one key. */
export type AgentPatch = S['AgentPatch'];

export type AgentVersion = S['VersionSummary'];
export type WholeVersion = S['AgentVersion'];
export type AgentDiff = S['AgentDiff'];

export type FileSource = S['FileSource'];
export type AgentFile = S['FileSummary'];
export type WholeFile = S['File'];
export type AgentExport = S['Export'];
export type AgentImport = S['Import'];
/** An imported agent with the effects of its files. */
export type ImportedAgent = S['Imported'];

/** Part of the workspace context that the server writes. */
export type ContextSection = S['ContextSection'];
/** The workspace context as agents receive it. */
export type SentContext = S['SentWorkspaceContext'];

/** Fields of a new agent that a model drafted from a description, and the model. */
export type DraftedAgent = S['DraftedAgent'];
/** Fields of a new agent, ready to be edited. */
export type AgentTemplate = S['Template'];

export type PreviewSegment = S['SystemPart'];
/** The prompt that a model would receive for this agent. */
export type AgentPreview = S['PreviewSeen'];
/** The prompt of a reply that has not been requested. */
export type NextContext = S['NextContext'];

export type WorkspacePolicy = S['Policy'];
/** The policy with its version, which a change must name. */
export type VersionedPolicy = WorkspacePolicy & { version: number };
/** Omitted fields are unchanged. */
export type PolicyPatch = S['PolicyPatch'];

export type ResponseRequest = S['CreateResponse'];
/** The part of a response that "Try it" shows. */
export type ResponseObject = Pick<S['Response'], 'model' | 'usage' | 'error'>;
/** Stream events that the client handles; others are ignored. */
export type ResponseEvent =
  | { type: 'response.output_text.delta'; delta: string }
  | {
      type: 'response.created' | 'response.completed' | 'response.incomplete' | 'response.failed';
      response: ResponseObject;
    }
  | { type: 'error'; message: string; code?: string | null };
