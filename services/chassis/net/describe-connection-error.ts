/** The causes by the codes of Node, OpenSSL and undici. */
const causes: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed without an answer',
  EPIPE: 'connection closed without an answer',
  UND_ERR_SOCKET: 'connection closed without an answer',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
  ENOTFOUND: 'host not found',
  EAI_AGAIN: 'host not found: no answer of DNS',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the host',
  HPE_HEADER_OVERFLOW: 'the headers of the answer are too long',
  EPROTO: 'TLS failed: the port does not speak TLS',
  ERR_SSL_WRONG_VERSION_NUMBER: 'TLS failed: the port does not speak TLS',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'TLS failed: the port does not speak TLS',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'TLS failed: no trusted authority issued the certificate',
  SELF_SIGNED_CERT_IN_CHAIN: 'TLS failed: no trusted authority issued the certificate',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'TLS failed: no trusted authority issued the certificate',
  UNABLE_TO_GET_ISSUER_CERT: 'TLS failed: no trusted authority issued the certificate',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'TLS failed: no trusted authority issued the certificate',
  CERT_HAS_EXPIRED: 'TLS failed: the certificate has expired',
}

/**
 * Returns why a connection or a call failed, in a few words without the address: `connection refused`.
 * Different causes of several addresses are listed.
 */
export function describeConnectionError(error: unknown): string {
  const { name, code, cause, message } = error as NodeJS.ErrnoException & { readonly cause?: unknown }
  if (name === 'AbortError' || name === 'TimeoutError') return 'timed out'
  const known = code === undefined ? undefined : causes[code]
  if (known !== undefined) return known
  if (error instanceof AggregateError && error.errors.length > 0)
    return [...new Set(error.errors.map(describeConnectionError))].join(', ')
  // The message of `fetch` is only "fetch failed"; the cause says why.
  if (cause instanceof Error) return describeConnectionError(cause)
  if (name === 'HTTPParserError' || /^HPE_/.test(code ?? '')) return 'the answer is not HTTP'
  if (/^ERR_(SSL|TLS)/.test(code ?? '')) return `TLS failed: ${message}`
  return message || code || 'the connection failed'
}
