import { isObject } from '@tollway/chassis/is-object.ts'
import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import type { DecisionRequest, DescriptorRequest } from './decision.ts'

/**
 * Returns the dynamic metadata of an answer: the domain, the descriptors and the hits of the request, and the
 * merged metadata of `ofPassed`. Of equal names, the first value counts; nested maps are merged. `ofPassed`
 * has the metadata of each rule that did not reject the request, in the order of the descriptors, except that
 * of unlimited rules.
 */
export function buildDynamicMetadata(request: DecisionRequest, ofPassed: readonly JsonObject[]): JsonObject {
  const { domain, descriptors, hitsAddend } = request
  const metadata = ofPassed.reduce<JsonObject>(merge, {})
  return {
    domain,
    descriptors: descriptors.map(describe),
    ...(hitsAddend !== 0 && { hitsAddend }),
    ...(Object.keys(metadata).length > 0 && { metadata }),
  }
}

function describe({ entries, limit, hitsAddend, givesBack }: DescriptorRequest): JsonObject {
  return {
    entries: entries.map(({ key, value }) => `${key}=${value}`),
    ...(limit && { limit: protobufText(limit) }),
    ...(hitsAddend !== undefined && { hitsAddend }),
    ...(givesBack && { isNegativeHits: true }),
  }
}

/** Formats a limit as protobuf prints a message: zero values are left out. */
function protobufText({ requestsPerUnit, unit }: NonNullable<DescriptorRequest['limit']>): string {
  const count = requestsPerUnit === 0 ? [] : [`requests_per_unit:${requestsPerUnit}`]
  return [...count, ...(unit === undefined ? [] : [`unit:${unit.toUpperCase()}`])].join(' ')
}

/** Uses only own properties, so that a map may have any name, including `__proto__`. */
function merge(first: JsonObject, second: JsonObject): JsonObject {
  const merged = new Map<string, Json>(Object.entries(first))
  for (const [name, value] of Object.entries(second)) {
    const known = merged.get(name)
    if (known === undefined) merged.set(name, value)
    else if (isObject(known) && isObject(value)) merged.set(name, merge(known, value))
  }
  return Object.fromEntries(merged)
}
