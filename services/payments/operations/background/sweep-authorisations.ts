import {
  abandonAttempt,
  claimDueAttempts,
  type DueAttempt,
  postponeAttempt,
  removeAttempt,
} from '../../storage/tables/authorisation-attempts.ts'
import { chooseProcessor, type Payments } from '../operation.ts'
import { processorLeaseMs, processorRetryMs } from './instruct-processor.ts'

export const maxSweptAtOnce = 50

/**
 * The outcomes of an attempt:
 * - `voided`: the processor had approved it without a stored payment, and has cancelled it.
 * - `absent`: the processor had not approved it.
 * - `recorded`: the payment is stored.
 * - `running`: a process works on the request.
 * - `failed`: the processor did not answer, and is called again later.
 */
export const sweepOutcomes = ['voided', 'absent', 'recorded', 'running', 'failed'] as const
type SweepOutcome = (typeof sweepOutcomes)[number]

interface SweptAttempt {
  readonly attempt: DueAttempt
  readonly outcome: SweepOutcome
  /** The error message of a `failed` attempt; empty for other outcomes. */
  readonly reason: string
}

/**
 * Cancels authorisations that have no stored payment after `authorisationSweepMs`, because the processor's
 * answer could not be stored and the request was not repeated.
 *
 * First removes the marker of the idempotency key. A repetition of the request then gets a new reference, and
 * a process that was suspended cannot store a cancelled authorisation as a payment.
 */
export async function sweepAuthorisations(payments: Payments): Promise<readonly SweptAttempt[]> {
  const { storage, clock } = payments
  const nowMs = clock.nowMs()
  const due = await storage.transaction(tx =>
    claimDueAttempts(tx, nowMs, nowMs + processorLeaseMs, maxSweptAtOnce),
  )
  return Promise.all(due.map(attempt => sweep(payments, attempt)))
}

async function sweep(payments: Payments, attempt: DueAttempt): Promise<SweptAttempt> {
  const { storage, clock } = payments
  const { reference, tries } = attempt
  const state = await storage.transaction(tx => abandonAttempt(tx, attempt, clock.nowMs()))
  // The attempt is due again after `processorLeaseMs`.
  if (state === 'running') return { attempt, outcome: 'running', reason: '' }
  let outcome: SweepOutcome = 'recorded'
  if (state === 'abandoned') {
    try {
      outcome = await cancel(payments, attempt)
    } catch (error) {
      const dueMs = clock.nowMs() + processorRetryMs(tries)
      await storage.transaction(tx => postponeAttempt(tx, reference, dueMs))
      return { attempt, outcome: 'failed', reason: (error as Error).message }
    }
  }
  await storage.transaction(tx => removeAttempt(tx, reference))
  return { attempt, outcome, reason: '' }
}

async function cancel(payments: Payments, attempt: DueAttempt): Promise<'voided' | 'absent'> {
  const processor = chooseProcessor(payments, attempt)
  if (processor === null) throw new Error('no card processor is configured for live merchants')
  const { reference: operationId, amount, currency } = attempt
  const { wasApproved } = await processor.cancelAuthorisation({ operationId, amount, currency })
  return wasApproved ? 'voided' : 'absent'
}
