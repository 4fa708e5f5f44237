import type { WholeFile, WorkspacePolicy } from '../api/agent-types';
import type { MemorySettings } from '../api/memory';
import { AT } from './make';

type Body = Record<string, unknown>;

/** An object whose changes name its version, as on the server. */
export abstract class VersionedObject {
  version = 0;
  /** `If-Match` headers of the changes, in order. */
  readonly matched: (string | null)[] = [];

  answer(request: Request, body: Body): Response {
    if (request.method === 'GET') return this.#found();
    const expected = request.headers.get('If-Match');
    this.matched.push(expected);
    if (expected !== null && expected !== `"${this.version}"`) {
      const error = { code: 'version_conflict', message: 'it has changed', current: this.current() };
      return Response.json({ error }, { status: 409 });
    }
    this.version++;
    if (request.method !== 'DELETE') this.change(body);
    else {
      this.remove();
      return new Response(null, { status: 204 });
    }
    return this.#found();
  }
  #found(): Response {
    const headers = { ETag: `"${this.version}"` };
    if (this.exists()) return Response.json(this.current(), { headers });
    return Response.json({ error: { code: 'file_not_found', message: 'no such file' } }, { status: 404 });
  }
  protected exists(): boolean {
    return true;
  }
  protected remove(): void {}
  protected abstract current(): object;
  protected abstract change(body: Body): void;
}

/** A file of an agent or of the workspace. */
export class StoredFile extends VersionedObject {
  content: string | null = null;
  #path: string;

  constructor(path: string, content: string | null = null) {
    super();
    this.#path = path;
    if (content !== null) this.write(content);
  }
  /** Changes the file as Bo, or deletes it (null). */
  write(content: string | null): void {
    this.content = content;
    this.version++;
  }
  summary(): Omit<WholeFile, 'content'> {
    return {
      object: 'agent_file',
      path: this.#path,
      source: 'agent',
      size_bytes: (this.content ?? '').length,
      version: this.version,
      updated_at: AT,
      updated_by: 'user_bo',
    };
  }
  protected override exists(): boolean {
    return this.content !== null;
  }
  protected override remove(): void {
    this.content = null;
  }
  protected override current(): WholeFile {
    return { ...this.summary(), content: this.content ?? '' };
  }
  protected override change(body: Body): void {
    this.content = body.content as string;
  }
}

/** The policy of a workspace. */
export class StoredPolicy extends VersionedObject {
  policy: WorkspacePolicy;
  bodies: Body[] = [];

  constructor(policy: Partial<WorkspacePolicy> = {}) {
    super();
    this.version = 1;
    this.policy = {
      required_text: null,
      allowed_tools: null,
      sandbox_policy_id: null,
      members_write_agents: true,
      adaptation_allowed: false,
      bare_model: true,
      show_costs: 'everyone',
      memory: {
        enabled: true,
        user: true,
        persona: true,
        organization: true,
        quiet: false,
        retention_days: null,
      },
      compaction: { default: 'off', by_mode: {} },
      workspace_context: { enabled: true, text: '', sections: ['members'] },
      trust_level: 0,
      approval_rules: [],
      trusted_domains: [],
      group_mentions: 'everyone',
      hooks: 'everyone',
      preview_max: { public: 'full', private: 'full', private_mail: 'sender' },
      ...policy,
    };
  }
  /** Changes the policy as another admin. */
  write(change: Partial<WorkspacePolicy>): void {
    this.policy = { ...this.policy, ...change };
    this.version++;
  }
  protected override current(): WorkspacePolicy {
    return this.policy;
  }
  protected override change(body: Body): void {
    this.bodies.push(body);
    const { workspace_context, memory, preview_max, ...others } = body as Partial<WorkspacePolicy>;
    this.policy = {
      ...this.policy,
      ...others,
      memory: { ...this.policy.memory, ...memory },
      preview_max: { ...this.policy.preview_max, ...preview_max },
      workspace_context: { ...this.policy.workspace_context, ...workspace_context },
    };
  }
}

/** A person's switches for memory. */
export class StoredSettings extends VersionedObject {
  override version = 1;
  settings: MemorySettings = { enabled: true, persona: true, adapt: false, server_enabled: true };

  protected override current(): MemorySettings {
    return this.settings;
  }
  protected override change(body: Body): void {
    this.settings = { ...this.settings, ...body };
  }
}
