import type { AuthorisationRequest, FollowUpRequest } from './processor.ts'
import { findReferencedCard, type KeyedHashes } from './test-references.ts'
import type { DueEvent } from './test-stores.ts'

/** How long a merchant can answer a dispute. */
const disputeAnswerMs = 14 * 24 * 60 * 60 * 1000
/** The code of 'fraudulent usage' in `fraudReasons`. */
const fraudReason = 1

/** Creates the events that follow an authorisation or a capture, as `later` of the test card states. */
export class FollowingEvents {
  readonly #hashes: KeyedHashes
  readonly #now: () => number
  readonly #delayMs: number

  /** @param delayMs the time from the cause to the event */
  constructor(hashes: KeyedHashes, now: () => number, delayMs: number) {
    this.#hashes = hashes
    this.#now = now
    this.#delayMs = delayMs
  }

  /** Returns the fraud alert that follows, if the test card defines one. */
  afterAuthorisation({ operationId }: AuthorisationRequest, reference: string): readonly DueEvent[] {
    if (findReferencedCard(reference)?.later !== 'fraud') return []
    const dueMs = this.#now() + this.#delayMs
    const id = `fraud_${this.#hashes.sign('fraud', operationId)}`
    return [{ dueMs, event: { kind: 'fraud', id, reference, occurredMs: dueMs, reason: fraudReason } }]
  }

  afterCapture(request: FollowUpRequest): readonly DueEvent[] {
    const later = findReferencedCard(request.reference)?.later
    if (later === undefined || later === 'fraud') return []
    const dispute = `dispute_${this.#hashes.sign('dispute', request.operationId)}`
    const raisedMs = this.#now() + this.#delayMs
    const raised = disputeRaised(request, dispute, raisedMs)
    if (later === 'dispute-open') return [raised]
    const outcome = later === 'dispute-won' ? 'won' : 'lost'
    return [raised, disputeResolved(request, dispute, outcome, raisedMs + this.#delayMs)]
  }
}

function disputeRaised(
  { reference, amount, currency }: FollowUpRequest,
  dispute: string,
  raisedMs: number,
): DueEvent {
  return {
    dueMs: raisedMs,
    event: {
      kind: 'dispute-raised',
      id: `${dispute}_raised`,
      dispute,
      reference,
      occurredMs: raisedMs,
      reason: 'fraudulent',
      dueMs: raisedMs + disputeAnswerMs,
      amount,
      currency,
    },
  }
}

function disputeResolved(
  { reference }: FollowUpRequest,
  dispute: string,
  outcome: 'won' | 'lost',
  resolvedMs: number,
): DueEvent {
  const id = `${dispute}_${outcome}`
  return {
    dueMs: resolvedMs,
    event: { kind: 'dispute-resolved', id, dispute, reference, occurredMs: resolvedMs, outcome },
  }
}
