import { hash } from 'node:crypto'

/** Returns the SHA-256 of the content as base64. */
export function hashContent(content: string | Uint8Array): string {
  return hash('sha256', content, 'base64')
}
