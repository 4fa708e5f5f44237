-- Imported messages have negative numbers, so their rows precede those of the workspace in the index, in the range of the number below:
-- numbers are given in steps of two.
drop trigger search_spaces_open;
create trigger search_spaces_open after insert on workspaces begin
    insert into search_spaces (no, workspace_id) values ((select coalesce(max(no), 0) + 2 from search_spaces), new.id);
end;
