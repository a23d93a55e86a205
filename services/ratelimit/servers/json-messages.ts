import { fromJson } from '@bufbuild/protobuf'
import {
  type RateLimitRequest,
  RateLimitRequestSchema,
  RateLimitResponse_Code,
  RateLimitResponse_RateLimit_Unit,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { maxCount } from '../counters/counters.ts'
import { type Decision, type DecisionRequest, maxParts } from '../limiter/decision.ts'
import { codeOf, overrideUnits, responseUnits } from './wire-enums.ts'

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * A request as proto3 JSON: both spellings of a field's name are taken; a name that is not one is refused.
 * undefined for what is no request, or no UTF-8, and for one of more than `maxParts` descriptors and entries.
 */
export function parseRequestJson(body: Uint8Array): DecisionRequest | undefined {
  try {
    const json = JSON.parse(strictUtf8.decode(body))
    return hasTooManyParts(json) ? undefined : toDecisionRequest(fromJson(RateLimitRequestSchema, json))
  } catch {
    return undefined
  }
}

/** Of a request as JSON, whatever else may be wrong with it: counted before anything is decoded. */
function hasTooManyParts(json: unknown): boolean {
  let count = 0
  for (const descriptor of listIn(json, 'descriptors')) {
    count += 1 + listIn(descriptor, 'entries').length
    if (count > maxParts) return true
  }
  return false
}

function listIn(json: unknown, name: string): readonly unknown[] {
  const found: unknown = Object(json)[name]
  return Array.isArray(found) ? found : []
}

/** The generated message as our own. */
export function toDecisionRequest(message: RateLimitRequest): DecisionRequest {
  return {
    domain: message.domain,
    descriptors: message.descriptors.map(({ entries, hitsAddend, limit }) => ({
      entries: entries.map(({ key, value }) => ({ key, value })),
      hitsAddend: hitsAddend === undefined ? undefined : countOf(hitsAddend),
      limit: limit && { requestsPerUnit: limit.requestsPerUnit, unit: overrideUnits[limit.unit] },
    })),
    hitsAddend: message.hitsAddend,
  }
}

/** What a counter cannot tell anyway is cut off. */
function countOf(hits: bigint): number {
  return hits > BigInt(maxCount) ? maxCount : Number(hits)
}

/**
 * The answer as proto3 JSON, in the order of declaration as Go writes it: protobuf-es goes by the fields'
 * numbers, which puts a limit's name last.
 */
export function toResponseJson(decision: Decision): string {
  return JSON.stringify({
    overallCode: codeName(decision.over),
    statuses: decision.statuses.map(({ over, remaining, limit }) => ({
      code: codeName(over),
      currentLimit: limit && {
        name: limit.name || undefined,
        requestsPerUnit: limit.requestsPerUnit || undefined,
        unit: RateLimitResponse_RateLimit_Unit[responseUnits[limit.unit]],
      },
      limitRemaining: remaining || undefined,
      durationUntilReset: limit && `${limit.resetSeconds}s`,
    })),
    responseHeadersToAdd: decision.headers?.length ? decision.headers : undefined,
    dynamicMetadata: decision.metadata,
  })
}

const codeName = (over: boolean) => RateLimitResponse_Code[codeOf(over)]
