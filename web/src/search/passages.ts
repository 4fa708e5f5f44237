import type { FileHit } from '../api/search';

type Named = Pick<FileHit, 'file' | 'part' | 'label'>;

/** "Handbook.pdf, page 12"; only the name of a text without parts. */
export const passageTitle = (hit: Named): string =>
  hit.label === hit.file.name ? hit.file.name : `${hit.file.name}, ${hit.label}`;

/** Address of the file; browsers open a PDF at the page. */
export const passageUrl = (hit: Named): string =>
  `/v1/files/${hit.file.id}${hit.file.content_type === 'application/pdf' ? `#page=${hit.part}` : ''}`;
