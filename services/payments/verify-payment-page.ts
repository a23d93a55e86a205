import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Task } from './background.ts'
import type { Metrics } from './metrics.ts'
import { checkPage } from './pages/browser/check-page.ts'

const intervalMs = 5 * 60_000

const results = ['intact', 'changed', 'unreachable'] as const
type Result = (typeof results)[number]

interface VerifyPageOptions {
  /** The public address of a payment page; empty for no check. */
  readonly address: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/**
 * Returns a task that compares the payment page with the inventory every five minutes (see `checkPage`), logs
 * the differences, and reports the result as a metric.
 */
export function verifyPaymentPage({ address, clock, log, metrics }: VerifyPageOptions): Task {
  let result: Result | undefined
  metrics.gauge(
    'payments_page_check',
    'The last check of the payment page as payers load it: 1 for its result.',
    () => results.map(name => [{ result: name }, name === result ? 1 : 0] as const),
  )
  let nextMs = 0
  return async () => {
    const startMs = clock.monotonicMs()
    if (address === '' || startMs < nextMs) return false
    nextMs = startMs + intervalMs
    try {
      const differences = await checkPage(address)
      result = differences.length === 0 ? 'intact' : 'changed'
      for (const difference of differences) log.error('verify payment page failed', { difference })
    } catch (error) {
      result = 'unreachable'
      log.warn('load payment page failed', { address, reason: (error as Error).message })
    }
    return false
  }
}
