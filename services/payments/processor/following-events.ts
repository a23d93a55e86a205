import type { DueEvent } from './event-journal.ts'
import type { AuthorisationRequest, FollowUpRequest } from './processor.ts'
import { findReferencedCard, type KeyedHashes } from './test-references.ts'

/** The events that the test processor reports later, as its test cards define them. */
interface FollowingEvents {
  /** @param reference the reference of the approved authorisation */
  ofAuthorisation(request: AuthorisationRequest, reference: string): DueEvent[]
  ofCapture(request: FollowUpRequest): DueEvent[]
}

/** The time in which a merchant can answer a dispute. */
const disputeAnswerMs = 14 * 24 * 60 * 60 * 1000
/** The schemes' reason for fraudulent usage. */
const fraudReason = 1

/**
 * @param now milliseconds since the epoch
 * @param delayMs the time between an event and its cause
 */
export function createFollowingEvents(
  hashes: KeyedHashes,
  now: () => number,
  delayMs: number,
): FollowingEvents {
  return {
    ofAuthorisation({ operationId }, reference) {
      if (findReferencedCard(reference)?.later !== 'fraud') return []
      const dueMs = now() + delayMs
      const id = `fraud_${hashes.sign('fraud', operationId)}`
      return [{ dueMs, event: { kind: 'fraud', id, reference, occurredMs: dueMs, reason: fraudReason } }]
    },

    ofCapture(request) {
      const later = findReferencedCard(request.reference)?.later
      if (later === undefined || later === 'fraud') return []
      const dispute = `dispute_${hashes.sign('dispute', request.operationId)}`
      const raisedMs = now() + delayMs
      const raised = disputeRaised(request, dispute, raisedMs)
      if (later === 'dispute-open') return [raised]
      const outcome = later === 'dispute-won' ? 'won' : 'lost'
      return [raised, disputeResolved(request, dispute, outcome, raisedMs + delayMs)]
    },
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
