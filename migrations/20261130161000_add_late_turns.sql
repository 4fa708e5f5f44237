-- The turn of a session that was stopped, and whose changes its runner has still to report; null as soon as another turn begins.
alter table code_sessions add column late_task_id uuid;
