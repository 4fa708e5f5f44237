import type { ReplyStyles, ReplyStylesApi, StylesForm } from '../api/reply-styles';
import { storedEditIn } from '../state/edit-storage';
import { isKeptEdit } from '../state/shared-edit.svelte';
import { VersionedEdit, type StoredFields } from '../state/versioned-edit.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';
import { choicesIn, styleIn, withChoices, withStyle, type ChoiceFields, type StyleFields } from './document';

type Api = Pick<ReplyStylesApi, 'get' | 'put'>;

/** Editor of a part of the workspace's document, whose other parts are sent as they were last loaded. */
function partEdit<F extends object>(
  { ws, api }: { ws: WorkspaceState; api: Api },
  name: string,
  fieldsOf: (doc: ReplyStyles) => F,
  change: (doc: StylesForm, fields: F) => StylesForm,
): VersionedEdit<F> {
  let doc: ReplyStyles;
  const stored = (loaded: ReplyStyles): StoredFields<F> => {
    doc = loaded;
    return { version: loaded.version, fields: fieldsOf(loaded) };
  };
  return new VersionedEdit(
    {
      read: async () => stored(await api.get()),
      write: async (version, _, fields) => stored(await api.put(version, change(doc, fields))),
      newest: async ({ current }) => stored(current as ReplyStyles),
    },
    storedEditIn(ws.store, `openvibe.styles.${ws.myId}.${ws.id}.${name}`, isKeptEdit<F>),
  );
}
export interface EditDeps {
  ws: WorkspaceState;
  api: Api;
}
/** Editor of a style, or of a new one (null). */
export const styleEdit = (deps: EditDeps, id: string | null): VersionedEdit<StyleFields> =>
  partEdit(
    deps,
    id ? `style.${id}` : 'new',
    (doc) => styleIn(doc, id),
    (doc, fields) => withStyle(doc, id, fields),
  );
export const choicesEdit = (deps: EditDeps): VersionedEdit<ChoiceFields> =>
  partEdit(deps, 'choices', choicesIn, withChoices);
