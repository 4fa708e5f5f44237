import katex from 'katex';

/** Maximum size of a formula's source in UTF-16 units. */
export const SOURCE_MAX = 4096;
const OPTIONS = {
  output: 'mathml',
  throwOnError: true,
  strict: 'ignore',
  // Commands that set addresses, styles, or classes; without an error, only their names would be shown.
  trust: () => {
    throw new Error('not allowed');
  },
  maxExpand: 200,
  maxSize: 40,
} as const;

/** A formula as MathML, which still has to be sanitized; null if the source is too long or has an error. */
export function toMathml(source: string, display: boolean): string | null {
  if (source.length > SOURCE_MAX || !source.trim()) return null;
  try {
    const html = katex.renderToString(source, { ...OPTIONS, displayMode: display });
    // The source is in the message already.
    const math = /<math[^>]*>[^]*<\/math>/.exec(html)?.[0];
    return math?.replace(/<annotation[^]*?<\/annotation>|<\/?semantics>/g, '') ?? null;
  } catch {
    return null;
  }
}
