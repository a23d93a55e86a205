import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { type CallGuard, createCallGuard } from './limits/call-guard.ts'
import { type CallLimits, callRules } from './limits/call-limits.ts'
import { createLocalCallLimits } from './limits/local-call-limits.ts'
import type { Metrics } from './metrics.ts'
import type { Settings } from './settings.ts'

/** Opens the limits of API calls: by the rate limit service where one runs, else in this process. */
export async function openCallGuard(
  settings: Settings,
  log: Log,
  metrics: Metrics,
): Promise<{ readonly guard: CallGuard; close(): void }> {
  const limits = await openLimits(settings, log, metrics)
  const count = metrics.counter('payments_calls_refused_total', 'API calls over a limit, by the limit.')
  for (const rule of callRules) count({ rule }, 0)
  return {
    guard: createCallGuard(limits, systemClock, ({ rule }) => count({ rule })),
    close: () => limits.close(),
  }
}

async function openLimits(settings: Settings, log: Log, metrics: Metrics): Promise<CallLimits> {
  const { apiCallsPerAddress, apiCallsPerKey, apiFailedKeysPerAddress, rateLimitAddress } = settings
  const perMinute = { address: apiCallsPerAddress, key: apiCallsPerKey, failed_key: apiFailedKeysPerAddress }
  const local = createLocalCallLimits(perMinute, systemClock)
  if (rateLimitAddress === '') return local
  const help = 'Failed calls of the rate limit service. The process limits API calls by itself meanwhile.'
  const count = metrics.counter('payments_rate_limit_failures_total', help)
  count({}, 0)
  // Loaded only where it is used: the gRPC library takes memory.
  const { createServiceCallLimits } = await import('./limits/service-call-limits.ts')
  return createServiceCallLimits({
    address: rateLimitAddress,
    domain: settings.rateLimitDomain,
    timeoutMs: settings.rateLimitTimeoutMs,
    local,
    clock: systemClock,
    onFailure(reason) {
      count({})
      log.warn('ask the rate limit service: failed; this process limits API calls by itself', { reason })
    },
  })
}
