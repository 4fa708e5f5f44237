-- `part_versions` is the version that last changed each part of what the agent is told; its `changed_by` is the part's author. Earlier
-- versions get them from the history: a part was changed where it differs from the version before. Null in versions that a server of
-- an earlier release writes.
alter table agent_versions add column part_versions jsonb;
update agent_versions set part_versions = f.part_versions from (
    with written (agent_id, version, profile) as (
        select v.agent_id, v.version, coalesce(o.profile, v.profile) from agent_versions v
        left join agent_versions o on o.agent_id = v.agent_id and o.version = v.profile_of),
    pairs (agent_id, version, profile, before) as (
        select agent_id, version, profile, lag(profile) over (partition by agent_id order by version) from written)
    select agent_id, version, jsonb_build_object(
            'instructions', max(case when before is null or profile ->> 'instructions' is distinct from before ->> 'instructions' then version end) over earlier,
            'identity', max(case when before is null or profile ->> 'identity' is distinct from before ->> 'identity' then version end) over earlier,
            'agency', max(case when before is null or profile ->> 'agency' is distinct from before ->> 'agency' then version end) over earlier,
            'tools', max(case when before is null or profile ->> 'tools' is distinct from before ->> 'tools' then version end) over earlier,
            'agents_md', max(case when before is null or profile -> 'files' ->> 'AGENTS.md' is distinct from before -> 'files' ->> 'AGENTS.md' then version end) over earlier,
            'tools_md', max(case when before is null or profile -> 'files' ->> 'TOOLS.md' is distinct from before -> 'files' ->> 'TOOLS.md' then version end) over earlier) as part_versions
        from pairs window earlier as (partition by agent_id order by version)
    ) f where f.agent_id = agent_versions.agent_id and f.version = agent_versions.version;
