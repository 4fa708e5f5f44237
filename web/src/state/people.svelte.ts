import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import type { Agent, Me, Member, Message, Presence, Snapshot } from '../api/types';
import type { ServerEvent } from '../api/events';
import { agentName } from '../lib/text';

/** Members and agents of the workspace, by ID and by handle, and who is online. */
export class People {
  me = $state.raw<Me>({ id: '', email: '', name: '', handle: '', role: 'member', avatar_url: null });
  readonly members = new SvelteMap<string, Member>();
  /** People whose membership is suspended. They are not in `members`. */
  readonly suspended = new SvelteMap<string, Member>();
  readonly agentsById = new SvelteMap<string, Agent>();
  readonly bots = new SvelteMap<string, Snapshot['bots'][number]>();
  /** Names of the commands of all bots. */
  readonly commands: ReadonlySet<string> = $derived(
    new Set([...this.bots.values()].flatMap((b) => b.commands ?? [])),
  );
  readonly online = new SvelteSet<string>();

  readonly roster = $derived([...this.members.values()].sort((a, b) => a.name.localeCompare(b.name)));
  /** Agents that people can talk to. System agents and bases are not listed. */
  readonly agents = $derived(
    [...this.agentsById.values()].filter(
      (a) => a.status === 'active' && a.mentionable && !a.is_system && this.hasAccess(a),
    ),
  );
  readonly isAdmin = $derived(this.me.role === 'admin');
  readonly canWrite = $derived(this.me.role !== 'viewer');
  /** Guests see only the channels that they are in. */
  readonly isGuest = $derived(this.me.role === 'guest');

  /** Checks whether the agent's access lists allow this user. Denials take precedence; no allowed subjects means everyone. */
  hasAccess(agent: Pick<Agent, 'access_control'>): boolean {
    const { allowed_subjects = [], denied_subjects = [] } = agent.access_control ?? {};
    const meant = (s: string) => s === this.me.id || s === `role:${this.me.role}`;
    return !denied_subjects.some(meant) && (!allowed_subjects.length || allowed_subjects.some(meant));
  }
  /** Checks whether the user can invoke the agent: by a mention, in a fork, or as a thread's responder. */
  canInvoke(agent: Pick<Agent, 'access_control' | 'status'>): boolean {
    return this.canWrite && agent.status === 'active' && this.hasAccess(agent);
  }

  load(s: Pick<Snapshot, 'me' | 'members' | 'agents' | 'bots' | 'presence'>): void {
    this.me = s.me;
    this.members.clear();
    this.suspended.clear();
    this.agentsById.clear();
    this.bots.clear();
    this.online.clear();
    for (const m of s.members) this.putMember(m);
    for (const a of s.agents) this.agentsById.set(a.id, a);
    for (const b of s.bots ?? []) this.bots.set(b.id, b);
    for (const p of s.presence) this.seen(p);
  }
  seen(p: Presence): void {
    if (p.status === 'online') this.online.add(p.user_id);
    else this.online.delete(p.user_id);
  }
  putMember(m: Member): void {
    if (m.status === 'suspended') {
      this.members.delete(m.user_id);
      this.online.delete(m.user_id);
      this.suspended.set(m.user_id, m);
      return;
    }
    this.suspended.delete(m.user_id);
    this.members.set(m.user_id, m);
    if (m.user_id === this.me.id) this.me = { ...this.me, name: m.name, handle: m.handle, role: m.role };
  }
  apply(e: ServerEvent): void {
    switch (e.type) {
      case 'member.joined':
      case 'member.updated':
        return this.putMember(e.data.member);
      case 'member.removed':
        this.members.delete(e.data.member.user_id);
        this.suspended.delete(e.data.member.user_id);
        this.online.delete(e.data.member.user_id);
        return;
      case 'bot.updated':
        return void this.bots.set(e.data.bot.id, e.data.bot);
      case 'agent.created':
      case 'agent.updated':
      case 'agent.archived': {
        const { agent } = e.data;
        const old = this.agentsById.get(agent.id);
        // Archiving is a change and creates a version. Without one, the agent was deleted, or hidden from the user.
        const lost =
          e.type === 'agent.archived' && old?.status !== 'archived' && old?.version === agent.version;
        if (lost) this.agentsById.delete(agent.id);
        else {
          // Events omit `effective_model`, which depends on the server's settings and on the model in the profile.
          const { effective_model = old?.model === agent.model ? old?.effective_model : undefined } = agent;
          this.agentsById.set(agent.id, { ...agent, effective_model });
        }
      }
    }
  }

  /** Checks whether the author of an imported message has not joined. Guests do not know all members. */
  isAbsent({ author, metadata }: Pick<Message, 'author' | 'metadata'>): boolean {
    const { id, type } = author;
    if (!metadata.imported_from || !id || type !== 'human' || this.isGuest) return false;
    return !this.members.has(id) && !this.suspended.has(id);
  }
  /** The current name; a message contains the name at the time when it was posted. */
  nameOf(author: Pick<Message['author'], 'type' | 'id' | 'name'>): string {
    if (author.id && author.type === 'human') return this.#currentName(author.id) ?? author.name;
    if (author.id && author.type === 'agent') {
      const agent = this.agentsById.get(author.id);
      return agent ? agentName(agent) : author.name;
    }
    return author.name || 'OpenVibe';
  }
  userName(id: string | null): string {
    if (!id) return 'Someone';
    return id === this.me.id ? 'You' : (this.#currentName(id) ?? 'Former member');
  }
  #currentName(id: string): string | undefined {
    const suspended = this.suspended.get(id);
    return suspended ? `${suspended.name} (deactivated)` : this.members.get(id)?.name;
  }
  agentName(id: string | null): string {
    const agent = id ? this.agentsById.get(id) : undefined;
    return agent ? agentName(agent) : 'The agent';
  }
  botName(id: string): string {
    return this.bots.get(id)?.name ?? 'A bot';
  }
  agentByHandle(handle: string): Agent | undefined {
    return this.agents.find((a) => a.name === handle);
  }
  readonly handles = $derived(
    new Set([
      ...this.roster.map((m) => m.handle),
      ...this.agents.map((a) => a.name),
      ...['everyone', 'here', 'channel'],
    ]),
  );
}
