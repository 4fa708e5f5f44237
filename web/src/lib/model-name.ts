/**
 * The model that replies, and the reason if it is not the one that the profile requests: the server uses `overriding` for all agents,
 * or lacks the requested model. Without `overriding`, the reason is not known.
 */
export function modelText(
  asked: string | null,
  effective: string | null | undefined,
  overriding?: string | null,
): string {
  if (effective === undefined) return asked ? `Asks for ${asked}` : 'The server’s default';
  if (!effective) return 'No model connected';
  if (!asked || asked === effective) return effective;
  if (overriding === undefined) return `Uses ${effective} instead of ${asked}`;
  return overriding ? overriddenText(overriding) : `Uses ${effective}: ${asked} is not available`;
}
export const overriddenText = (model: string): string => `This server uses ${model} for all agents`;
