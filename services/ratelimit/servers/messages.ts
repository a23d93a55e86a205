import { create, type MessageInitShape } from '@bufbuild/protobuf'
import {
  RateLimitResponse_Code as Code,
  type RateLimitRequest,
  type RateLimitResponse,
  RateLimitResponseSchema,
  RateLimitResponse_RateLimit_Unit as ResponseUnit,
  type RateLimitResponse_DescriptorStatusSchema as StatusSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitUnit } from '@tollway/proto/envoy/type/v3/ratelimit_unit'
import { maxCount } from '../counters/counters.ts'
import type { Decision, DecisionRequest, DescriptorDecision, DescriptorRequest } from '../limiter/decision.ts'
import type { Unit } from '../rules/config.ts'

/** Between the wire's messages and our own. */
export function toDecisionRequest(message: RateLimitRequest): DecisionRequest {
  return {
    domain: message.domain,
    hitsAddend: message.hitsAddend,
    descriptors: message.descriptors.map((descriptor): DescriptorRequest => {
      const { entries, hitsAddend, limit } = descriptor
      return {
        entries,
        ...(hitsAddend !== undefined && { hitsAddend: countOf(hitsAddend) }),
        ...(limit && { limit: { requestsPerUnit: limit.requestsPerUnit, unit: overrideUnits[limit.unit] } }),
      }
    }),
  }
}

export function toResponse(decision: Decision): RateLimitResponse {
  return create(RateLimitResponseSchema, {
    overallCode: codeOf(decision.over),
    statuses: decision.statuses.map(toStatus),
  })
}

function toStatus(status: DescriptorDecision): MessageInitShape<typeof StatusSchema> {
  const { limit } = status
  return {
    code: codeOf(status.over),
    limitRemaining: status.remaining,
    ...(limit && {
      currentLimit: {
        name: limit.name,
        requestsPerUnit: limit.requestsPerUnit,
        unit: responseUnits[limit.unit],
      },
      durationUntilReset: { seconds: BigInt(limit.resetSeconds) },
    }),
  }
}

/**
 * The same answer as proto3 JSON, in the order of declaration as Go writes it: protobuf-es goes by the
 * fields' numbers, which puts a limit's name last.
 */
export function toResponseJson(decision: Decision): string {
  return JSON.stringify({
    overallCode: Code[codeOf(decision.over)],
    statuses: decision.statuses.map(({ over, remaining, limit }) => ({
      code: Code[codeOf(over)],
      currentLimit: limit && {
        name: limit.name || undefined,
        requestsPerUnit: limit.requestsPerUnit || undefined,
        unit: ResponseUnit[responseUnits[limit.unit]],
      },
      limitRemaining: remaining || undefined,
      durationUntilReset: limit && `${limit.resetSeconds}s`,
    })),
  })
}

const codeOf = (over: boolean) => (over ? Code.OVER_LIMIT : Code.OK)

/** What a counter cannot tell anyway is cut off. */
function countOf(hits: bigint): number {
  return hits > BigInt(maxCount) ? maxCount : Number(hits)
}

const overrideUnits: Readonly<Record<number, Unit | undefined>> = {
  [RateLimitUnit.SECOND]: 'second',
  [RateLimitUnit.MINUTE]: 'minute',
  [RateLimitUnit.HOUR]: 'hour',
  [RateLimitUnit.DAY]: 'day',
  [RateLimitUnit.MONTH]: 'month',
  [RateLimitUnit.YEAR]: 'year',
}

const responseUnits: Readonly<Record<Unit, ResponseUnit>> = {
  second: ResponseUnit.SECOND,
  minute: ResponseUnit.MINUTE,
  hour: ResponseUnit.HOUR,
  day: ResponseUnit.DAY,
  week: ResponseUnit.WEEK,
  month: ResponseUnit.MONTH,
  year: ResponseUnit.YEAR,
}
