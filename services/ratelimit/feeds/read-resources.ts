import { checkType } from '@tollway/discovery/check-type.ts'
import type { Problem } from '../rules/config.ts'
import { decodeResource } from './decode-resource.ts'
import { type OpenReading, type Part, rateLimitTypeUrl } from './reading.ts'

/** The resources of one response. */
export interface Resources {
  readonly typeUrl: string
  readonly resources: readonly { readonly typeUrl: string; readonly value: Uint8Array }[]
  /** The hash of each resource's value, in order. */
  readonly hashes: readonly string[]
}

export function openResources({ typeUrl: type, resources, hashes }: Resources): OpenReading {
  const problems: Problem[] = []
  try {
    checkType(type, rateLimitTypeUrl)
  } catch (error) {
    problems.push({ source: 'response', path: '', message: (error as Error).message })
  }
  const parts = resources.map(({ typeUrl, value }, index): Part => {
    const hash = hashes[index] ?? ''
    return {
      source: `resources[${index}]`,
      bytes: value.length,
      hash,
      read() {
        checkType(typeUrl, rateLimitTypeUrl)
        return { hash, decode: () => ({ value: decodeResource(value), warnings: [] }) }
      },
    }
  })
  return { parts, problems, warnings: [] }
}
