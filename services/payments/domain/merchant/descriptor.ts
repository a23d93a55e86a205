/** The text on a bank statement: up to 22 printable characters of ASCII, as in the public API. */
export const descriptorPattern = /^[\x20-\x7E]{0,22}$/

/** The first that says something: an operation's own, its transaction's, its merchant's. */
export function chooseDescriptor(...candidates: readonly (string | null)[]): string {
  return candidates.find(candidate => candidate !== null && candidate !== '') ?? ''
}
