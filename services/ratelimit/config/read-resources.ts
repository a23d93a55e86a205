import { checkType } from '@tollway/xds-client/discovery-session.ts'
import { type ConfigProblem, rateLimitTypeUrl } from '../rules/model.ts'
import { decodeDomain } from './domain-codec.ts'
import type { OpenReading, ReadingPart, Resources } from './reading.ts'

export function openResources({ typeUrl: type, resources, hashes }: Resources): OpenReading {
  const problems: ConfigProblem[] = []
  try {
    checkType(type, rateLimitTypeUrl)
  } catch (error) {
    problems.push({ source: 'response', path: '', message: (error as Error).message })
  }
  const parts = resources.map(({ typeUrl, value }, index): ReadingPart => {
    const hash = hashes[index] ?? ''
    return {
      source: `resources[${index}]`,
      bytes: value.length,
      hash,
      read() {
        checkType(typeUrl, rateLimitTypeUrl)
        return { hash, decode: () => ({ value: decodeDomain(value), warnings: [] }) }
      },
    }
  })
  return { parts, problems, warnings: [] }
}
