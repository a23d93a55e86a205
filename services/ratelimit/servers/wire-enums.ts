import {
  RateLimitResponse_Code,
  RateLimitResponse_RateLimit_Unit,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitUnit } from '@tollway/proto/envoy/type/v3/ratelimit_unit'
import type { Unit } from '../rules/config.ts'

/** The numbers that stand for our own words in the messages. */
export function codeOf(over: boolean): RateLimitResponse_Code {
  return over ? RateLimitResponse_Code.OVER_LIMIT : RateLimitResponse_Code.OK
}

/** Units of a caller's own limit. */
export const overrideUnits: Readonly<Record<number, Unit | undefined>> = {
  [RateLimitUnit.SECOND]: 'second',
  [RateLimitUnit.MINUTE]: 'minute',
  [RateLimitUnit.HOUR]: 'hour',
  [RateLimitUnit.DAY]: 'day',
  [RateLimitUnit.MONTH]: 'month',
  [RateLimitUnit.YEAR]: 'year',
}

export const responseUnits: Readonly<Record<Unit, RateLimitResponse_RateLimit_Unit>> = {
  second: RateLimitResponse_RateLimit_Unit.SECOND,
  minute: RateLimitResponse_RateLimit_Unit.MINUTE,
  hour: RateLimitResponse_RateLimit_Unit.HOUR,
  day: RateLimitResponse_RateLimit_Unit.DAY,
  week: RateLimitResponse_RateLimit_Unit.WEEK,
  month: RateLimitResponse_RateLimit_Unit.MONTH,
  year: RateLimitResponse_RateLimit_Unit.YEAR,
}
