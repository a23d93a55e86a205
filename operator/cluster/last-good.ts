import { gunzipSync, gzipSync } from 'node:zlib'
import type { RateLimitDomain } from '../ir.ts'
import { isRateLimitDomain } from '../reconcilers/is-rate-limit-domain.ts'

/** More than any resource of an API server can say. */
const maxJsonBytes = 64 * 1024 * 1024

const encoded = new WeakMap<RateLimitDomain, string>()

/** A domain as it stands in the status of its resource. The same object is not encoded twice. */
export function encodeLastGood(domain: RateLimitDomain): string {
  const known = encoded.get(domain)
  if (known !== undefined) return known
  const content = gzipSync(JSON.stringify(domain)).toString('base64')
  encoded.set(domain, content)
  return content
}

/** undefined for what is not of our making, or is not of the resource `name`. */
export function decodeLastGood(content: unknown, name: string): RateLimitDomain | undefined {
  if (typeof content !== 'string') return undefined
  try {
    const json = gunzipSync(Buffer.from(content, 'base64'), { maxOutputLength: maxJsonBytes }).toString()
    const domain: unknown = JSON.parse(json)
    return isRateLimitDomain(domain) && domain.name === name ? domain : undefined
  } catch {
    return undefined
  }
}
