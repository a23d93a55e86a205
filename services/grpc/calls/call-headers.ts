import type { ReadHeader } from '@tollway/chassis/tracing/tracing.ts'
import type { Metadata } from '../server.ts'

/** Returns a reader of the text values; binary values are ignored. */
export function fromMetadata(metadata: Metadata): ReadHeader {
  return name => {
    const values = metadata.get(name)
    if (values === undefined) return undefined
    const [first] = values
    if (values.length === 1) return typeof first === 'string' ? first : undefined
    return values.filter(value => typeof value === 'string').join(',')
  }
}
