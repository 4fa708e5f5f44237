/** Whether this browser can use passkeys here: it needs HTTPS, or `localhost`. */
export const hasPasskeys = (): boolean =>
  window.isSecureContext &&
  'PublicKeyCredential' in window &&
  'parseRequestOptionsFromJSON' in PublicKeyCredential;

/** Returns the credential as the server expects it, or null if the person declined. */
async function taken(asked: Promise<Credential | null>): Promise<Record<string, unknown> | null> {
  try {
    const credential = await asked;
    return credential instanceof PublicKeyCredential ? { ...credential.toJSON() } : null;
  } catch (e) {
    // The person closed the browser's dialog, or did not respond in time; or an offer ended.
    if (e instanceof DOMException && (e.name === 'NotAllowedError' || e.name === 'AbortError')) return null;
    throw e;
  }
}
/** Asks the person for a passkey, and returns its signature. */
export const askForPasskey = (options: object): Promise<Record<string, unknown> | null> =>
  taken(
    navigator.credentials.get({
      publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(
        options as PublicKeyCredentialRequestOptionsJSON,
      ),
    }),
  );
/** Whether this browser can offer passkeys among the saved accounts of a field. */
export const offersPasskeys = async (): Promise<boolean> =>
  hasPasskeys() &&
  'isConditionalMediationAvailable' in PublicKeyCredential &&
  (await PublicKeyCredential.isConditionalMediationAvailable());

/** Offers passkeys among the saved accounts of a field with `webauthn`. Returns null once the signal ends the offer. */
export const offerPasskeys = (
  options: object,
  signal: AbortSignal,
): Promise<Record<string, unknown> | null> =>
  taken(
    navigator.credentials.get({
      mediation: 'conditional',
      signal,
      publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(
        options as PublicKeyCredentialRequestOptionsJSON,
      ),
    }),
  );
/** Creates a passkey on a device of the person. Fails with `InvalidStateError` if that device has one already. */
export const createPasskey = (options: object): Promise<Record<string, unknown> | null> =>
  taken(
    navigator.credentials.create({
      publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(
        options as PublicKeyCredentialCreationOptionsJSON,
      ),
    }),
  );
