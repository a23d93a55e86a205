import {
  maxLimits,
  maxRequestsPerUnit,
  maxUnitMultiplier,
  minLimits,
} from '@tollway/ratelimit/rules/config.ts'

/** The bounds of a limit. Lengths are in characters. */
export const limitBounds = {
  maxNameLength: 128,
  /** Longer or more names would make CEL over the first level would cost more than an API server allows. */
  maxReplaces: 16,
  maxRequestsPerUnit,
  maxUnitMultiplier,
  maxTimeZoneLength: 64,
  /** Limits on one descriptor. */
  minLimits,
  maxLimits,
} as const
