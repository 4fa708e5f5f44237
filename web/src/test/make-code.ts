/** Sessions in repositories for unit tests; tests specify only the relevant fields. */
import type { ChangedFile, CodeSession, Repository, Runner, Step } from '../api/code';
import { message } from './make';

export const repository = (x: Partial<Repository> = {}): Repository => ({
  id: 'repo_1',
  object: 'repository',
  name: 'api',
  runner: { id: 'runner_1', name: 'build-1', online: true },
  state: 'allowed',
  base: 'main',
  engine: 'builtin',
  engines: [
    { name: 'builtin', to: null },
    { name: 'claude', to: 'models.example.com' },
  ],
  channel_ids: ['chan_1'],
  starters: 'members',
  can_push: true,
  version: 1,
  ...x,
});
export const codeSession = (x: Partial<CodeSession> = {}, file: Partial<ChangedFile> = {}): CodeSession => ({
  id: 'code_1',
  object: 'code_session',
  number: 123,
  repository_id: 'repo_1',
  agent_id: 'agent_vibe',
  thread_id: 'thread_1',
  fork_id: null,
  engine: 'builtin',
  base_commit: 'b0',
  state: 'ready',
  ahead: 0,
  tree: 't1',
  files: [
    {
      path: 'src/sum.js',
      old_path: null,
      status: 'modified',
      additions: 24,
      deletions: 9,
      binary: false,
      ...file,
    },
  ],
  file_count: 1,
  additions: 24,
  deletions: 9,
  check: { state: 'passed', ms: 41_000 },
  title: 'Add sums',
  body: 'They were missing.',
  branch: 'vibe/123',
  pushed: null,
  notes: [],
  reply_id: 'msg_r',
  action_id: null,
  version: 1,
  created_at: '2026-01-05T09:00:00.000Z',
  ...x,
});
export const step = (x: Partial<Step> = {}): Step => ({
  n: 0,
  title: 'Read src/sum.js',
  kind: 'read',
  state: 'running',
  ms: 0,
  ...x,
});

export const runner = (x: Partial<Runner> = {}): Runner => ({
  id: 'runner_1',
  object: 'runner',
  name: 'build-1',
  online: false,
  version: null,
  sandbox: null,
  engines: [],
  scratch: false,
  seen_at: null,
  created_by: 'user_me',
  created_at: '2026-01-05T09:00:00.000Z',
  ...x,
});

/** Routes of repositories and sessions. */
export class CodeRoutes {
  runners: Runner[] = [];
  repositories: Repository[] = [repository()];
  sessions: CodeSession[] = [];
  patch = '';
  log = '';

  answer(call: string, url: URL, body: Record<string, unknown>): Response | null {
    const list = (data: unknown[]) => Response.json({ object: 'list', data, has_more: false });
    const [, , kind, id, part] = url.pathname.split('/');
    if (kind === 'runners') {
      if (call.startsWith('GET')) return list(this.runners);
      const made = runner({ id: 'runner_2', name: String(body.name) });
      this.runners = call.startsWith('POST') ? [...this.runners, made] : [];
      return Response.json({ ...made, key: 'ovr_secret' });
    }
    if (kind === 'repositories') {
      if (!id) return list(this.repositories);
      this.repositories = this.repositories.map((r) =>
        r.id === id ? { ...r, ...body, version: r.version + 1 } : r,
      );
      return Response.json(this.repositories.find((r) => r.id === id));
    }
    if (kind === 'code-sessions') {
      if (!id) return list(this.sessions.filter((s) => s.thread_id === url.searchParams.get('thread_id')));
      if (part === 'patch') return new Response(this.patch);
      if (part === 'log') return new Response(this.log);
      this.sessions = this.sessions.map((s) =>
        s.id === id && call.startsWith('PATCH') ? { ...s, ...body, version: s.version + 1 } : s,
      );
      return Response.json(this.sessions.find((s) => s.id === id));
    }
    if (/^POST .v1.threads.\w+.messages$/.test(call))
      return Response.json({ message: message({ id: 'msg_review' }), tasks: [] });
    return null;
  }
}
