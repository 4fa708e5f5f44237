-- Files of people, which agents read: USER.md. A deleted file keeps its row without content, so that its version numbers
-- continue.
create table user_files (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    content text,
    visibility text not null,
    version bigint not null,
    updated_at timestamptz not null,
    primary key (workspace_id, user_id)
);
create index user_files_user on user_files (user_id);

-- What agents know about the workspace, merged by key.
alter table workspace_policies add column workspace_context jsonb not null default '{}';

-- File of an agent that an entry is a paragraph of.
alter table memories add column path text;

-- An agent's own AGENTS.md and TOOLS.md are part of its profile. All versions applied the current ones so far.
update agents set profile = jsonb_set(profile, '{files}', (select jsonb_object_agg(f.path, f.content) from agent_files f
    where f.owner_id = agents.id and f.path in ('AGENTS.md', 'TOOLS.md') and f.content is not null))
    where id in (select owner_id from agent_files where path in ('AGENTS.md', 'TOOLS.md') and content is not null);
update agent_versions set
    profile = jsonb_set(profile, '{files}', (select a.profile -> 'files' from agents a where a.id = agent_id)),
    resolved = jsonb_set(resolved, '{files}', (select a.profile -> 'files' from agents a where a.id = agent_id))
    where agent_id in (select owner_id from agent_files where path in ('AGENTS.md', 'TOOLS.md') and content is not null);
update agent_files set content = null
    where path in ('AGENTS.md', 'TOOLS.md') and content is not null and owner_id in (select id from agents);
