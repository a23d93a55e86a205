const pattern = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i

/**
 * The API key of a request: the password of basic authorization (RFC 7617) whose user name is empty. Null
 * when there is none, or the user name is not empty.
 */
export function readApiKey(authorization: string | undefined): string | null {
  const [, encoded] = pattern.exec(authorization ?? '') ?? []
  if (encoded === undefined) return null
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  return text.startsWith(':') && text.length > 1 ? text.slice(1) : null
}
