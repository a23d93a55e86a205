import { gunzipSync, gzipSync } from 'node:zlib'
import type { KindAdapter, Named } from '../../../kinds/kind-adapter.ts'

/** The maximum of decoded bytes, more than any resource of an API server has. */
const maxJsonBytes = 64 * 1024 * 1024

const encoded = new WeakMap<Named, string>()

/** Encodes a content for the store. The same object is not encoded twice. */
export function encodeLastGood(content: Named): string {
  const known = encoded.get(content)
  if (known !== undefined) return known
  const text = gzipSync(JSON.stringify(content)).toString('base64')
  encoded.set(content, text)
  return text
}

/**
 * Returns undefined for text that is not such content, or not of the resource `name`; of any resource if it is
 * left out.
 */
export function decodeLastGood<Content extends Named>(
  { isContent }: Pick<KindAdapter<Content>, 'isContent'>,
  text: unknown,
  name?: string,
): Content | undefined {
  if (typeof text !== 'string') return undefined
  try {
    const json = gunzipSync(Buffer.from(text, 'base64'), { maxOutputLength: maxJsonBytes }).toString()
    const content: unknown = JSON.parse(json)
    return isContent(content) && content.name === (name ?? content.name) ? content : undefined
  } catch {
    return undefined
  }
}
