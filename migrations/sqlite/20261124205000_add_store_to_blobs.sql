-- Place of the bytes: `db` (chunks of `upload_id`), `file` (beside a SQLite database), or `s3` (object `HASH/UPLOAD` below the
-- prefix of `OPENVIBE_BLOBS_URL`). Earlier programs insert neither column.
alter table blobs add column store text not null default 'file';

-- Incomplete uploads are removed when they have got no chunk for a day.
alter table blob_chunks add column created_at timestamptz;
