import type { PreviewMax } from '../api/push';
import type { components } from '../api/schema';

export type Preview = components['schemas']['NotificationPreview'];

export const PREVIEWS = [
  ['full', 'Full'],
  ['sender', 'Sender'],
  ['none', 'None'],
] as const;
export const PLACES = [
  ['public', 'Public channels'],
  ['private', 'Private conversations'],
  ['private_mail', 'Emails about private conversations'],
] as const;
const rank = (preview: Preview) => PREVIEWS.findIndex(([name]) => name === preview);
const isLess = (max: Preview, chosen: Preview) => rank(max) > rank(chosen);
/** What a person chose, or the most that the workspace shows if that is less. */
export const limited = (chosen: Preview, max: Preview): Preview => (isLess(max, chosen) ? max : chosen);
const SHOWN: Record<Preview, string> = {
  full: 'everything',
  sender: 'only the sender',
  none: 'neither sender nor text',
};

/** Sentences on the places where the workspace shows less than the person chose. */
export function limitTexts(
  max: PreviewMax,
  of: { workspace: string; preview: Preview; mail: boolean },
): string[] {
  const { workspace, preview, mail } = of;
  const texts = [];
  if (isLess(max.public, preview)) texts.push(`In public channels, ${workspace} shows ${SHOWN[max.public]}.`);
  if (isLess(max.private, preview))
    texts.push(`In private conversations, ${workspace} shows ${SHOWN[max.private]}.`);
  if (mail && isLess(max.private_mail, preview) && max.private_mail !== max.private)
    texts.push(`In emails about private conversations, ${workspace} shows ${SHOWN[max.private_mail]}.`);
  return texts;
}
