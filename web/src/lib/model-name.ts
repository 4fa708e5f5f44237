/** The model that replies, and a note if the server lacks the model that the profile requests. */
export function modelText(asked: string | null, effective: string | null | undefined): string {
  if (effective === undefined) return asked ? `Asks for ${asked}` : 'The server’s default';
  if (!asked || asked === effective) return effective ?? 'No model connected';
  return `${effective ? `Uses ${effective}` : 'No model connected'}: ${asked} is not available`;
}
