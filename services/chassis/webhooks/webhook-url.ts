import { isIP } from 'node:net'
import type { AddressPolicy } from './address-policy.ts'

/**
 * Returns the URL, or why no webhook may be sent to it. A host name is not resolved, since its addresses are
 * checked at each try.
 */
export function checkWebhookUrl(
  text: string,
  policy: AddressPolicy,
): { readonly url: URL } | { readonly problem: string } {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    return { problem: 'is not an address such as https://example.com/hook' }
  }
  if (url.protocol === 'http:' && !policy.allowsHttp) return { problem: 'must begin with https://' }
  if (url.username !== '' || url.password !== '') return { problem: 'has a user or a password' }
  if (url.hash !== '') return { problem: 'has a fragment' }
  const host = readHost(url)
  // The URL parser has converted forms such as `0x7f.1` and `2130706433` into plain addresses.
  if (isIP(host) !== 0 && !policy.allows(host)) return { problem: `${host} is not a public address` }
  return { url }
}

/** Returns the host without the brackets of an IPv6 address. */
export function readHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}
