-- Only the index of SQLite gives each workspace a range of numbers.
select 1;
