-- Open action items by due date, which every prompt with the workspace context lists. One text for SQLite and PostgreSQL.
create index action_items_open on action_items (workspace_id, coalesce(due, '9999-12-31'), id) where not done;
