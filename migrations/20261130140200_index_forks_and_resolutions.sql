-- Finds the people of all deep dives and results of a workspace, for undone imports and merged members.
create index forks_creator on forks (workspace_id, created_by);
create index resolutions_publisher on resolutions (workspace_id, publisher_id);
