-- Approvals of bases also bind agents with lists of their own. The current versions of these were merged when they did not, so they
-- are merged again in the background: their recorded bases no longer match.
insert into agent_refreshes (base_id, workspace_id, requested_by, after_id, created_at)
    select b.id, b.workspace_id, coalesce(b.created_by, b.id), cast('00000000-0000-0000-0000-000000000000' as uuid), b.updated_at
    from agents b join agent_versions v on v.agent_id = b.id and v.version = b.version
    where v.resolved ->> 'trust' is not null and exists (select 1 from agents a where a.base_id = b.id and a.profile ->> 'trust' is not null)
    on conflict (base_id) do update set after_id = excluded.after_id;
update agent_versions set bases = '[]'
    where exists (select 1 from agents a join agent_refreshes r on r.base_id = a.base_id
        where a.id = agent_versions.agent_id and a.version = agent_versions.version and a.id > r.after_id
        and a.profile ->> 'trust' is not null);
