import { cancellationsCase } from './cancellations.ts'
import { clockStepsCase } from './clock-steps.ts'
import { exactAlgorithmsCase } from './exact-algorithms.ts'
import { exactnessCases } from './exactness.ts'
import { failoverFaults } from './failover-faults.ts'
import type { FaultCase } from './fault-case.ts'
import { fullRateCase } from './full-rate.ts'
import { leasesCase, leasesOfWindowsCase } from './leases.ts'
import { memcachedFaults } from './memcached-faults.ts'
import { processFaults } from './process-faults.ts'
import { redisFaults } from './redis-faults.ts'
import { stallCases } from './stalls.ts'

/** Cases that need the same setup follow each other. */
export const cases: readonly FaultCase[] = [
  ...redisFaults,
  ...stallCases,
  fullRateCase,
  cancellationsCase,
  ...failoverFaults,
  ...memcachedFaults,
  ...exactnessCases,
  exactAlgorithmsCase,
  leasesCase,
  leasesOfWindowsCase,
  ...processFaults,
  clockStepsCase,
]
