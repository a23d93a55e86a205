import {
  maxLimits,
  maxRequestsPerUnit,
  maxUnitMultiplier,
  minLimits,
} from '@tollway/ratelimit/rules/rate-limit-domain.ts'

/** The bounds of a limit. Lengths are in characters. */
export const limitBounds = {
  maxNameLength: 128,
  /** Longer or more names would make the CEL rules of the first level exceed the cost that is allowed. */
  maxReplaces: 16,
  maxRequestsPerUnit,
  maxUnitMultiplier,
  maxTimeZoneLength: 64,
  /** Limits on one descriptor. */
  minLimits,
  maxLimits,
} as const
