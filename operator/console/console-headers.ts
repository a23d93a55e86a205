/**
 * The headers of each answer of the console. The policy lets the page load its own files and call the API of
 * the same origin, and nothing else.
 *
 * @param scriptHashes the hashes of the scripts that the document itself contains
 */
export function consoleHeaders(scriptHashes: readonly string[]): Readonly<Record<string, string>> {
  const scripts = ["'self'", ...scriptHashes.map(hash => `'${hash}'`)].join(' ')
  return {
    'content-security-policy': [
      "default-src 'none'",
      `script-src ${scripts}`,
      "style-src 'self'",
      "img-src 'self'",
      "connect-src 'self'",
      "form-action 'none'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ].join('; '),
    'cache-control': 'no-cache',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  }
}
