/** Whether this browser can use passkeys here: it needs HTTPS, or `localhost`. */
export const hasPasskeys = (): boolean =>
  window.isSecureContext &&
  'PublicKeyCredential' in window &&
  'parseRequestOptionsFromJSON' in PublicKeyCredential;

/** Asks the person for a passkey. Returns its signature as the server expects it, or null if they declined. */
export async function askForPasskey(options: object): Promise<Record<string, unknown> | null> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
    options as PublicKeyCredentialRequestOptionsJSON,
  );
  try {
    const credential = await navigator.credentials.get({ publicKey });
    return credential instanceof PublicKeyCredential ? { ...credential.toJSON() } : null;
  } catch (e) {
    // The person closed the browser's dialog, or did not respond in time.
    if (e instanceof DOMException && e.name === 'NotAllowedError') return null;
    throw e;
  }
}
