-- The last handoff to the agent of a binding, so that another one soon after it replaces its notice.
alter table bindings add column handed_over_by uuid;
alter table bindings add column handed_over_from uuid;
alter table bindings add column handed_over_at timestamptz;
alter table bindings add column handoff_notice_id uuid;
