import { createHmac, timingSafeEqual } from 'node:crypto'
import { type CardDetails, type CardExpiry, type CardScheme, expiryMs } from '../domain/merchant/card.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { Tds } from '../domain/transaction/transaction.ts'
import { type AnswerStore, createMemoryAnswers } from './answer-store.ts'
import { readCard } from './card-number.ts'
import type { DueEvent, EventJournal } from './event-journal.ts'
import type {
  Authentication,
  AuthenticationRequest,
  AuthorisationAnswer,
  AuthorisationRequest,
  CardProcessor,
  ChallengeResult,
  FollowUpRequest,
  KnownCard,
} from './processor.ts'
import { type TestCard, testCardNamed, testCardOf } from './test-cards.ts'

export interface TestProcessorOptions {
  /** Secret of the hashes in tokens, fingerprints and proofs. At least 16 bytes. */
  readonly key: Uint8Array
  readonly journal: EventJournal
  /** In memory when left out. */
  readonly answers?: AnswerStore
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** How long after its cause an event happens: a fraud alert, a dispute, and the end of that dispute. */
  readonly eventDelayMs?: number
}

const defaultEventDelayMs = 1000
const minKeyBytes = 16
/** How long a merchant has to answer a dispute. */
const disputeAnswerMs = 14 * 24 * 60 * 60 * 1000
/** Transaction rejected: what an authorisation gets after it was cancelled. */
const cancelledError = 11
const cancelledAnswer: AuthorisationAnswer = { approved: false, error: cancelledError, card: null }
/** What a scheme calls fraudulent usage. */
const fraudReason = 1

/**
 * A card processor that moves no money: the number of a card decides what becomes of it (see `testCards`),
 * and what follows from it is in its token and references. The first answer to an operation is kept, and a
 * repeated call gets it; events to come are kept in the journal.
 */
export function createTestProcessor(options: TestProcessorOptions): CardProcessor {
  const { key, journal, now, eventDelayMs = defaultEventDelayMs } = options
  const { answers = createMemoryAnswers() } = options
  if (key.byteLength < minKeyBytes) {
    throw new RangeError(`key: has ${key.byteLength} bytes; at least ${minKeyBytes} are needed`)
  }
  const seal = createSeal(key)

  async function authorise(request: AuthorisationRequest): Promise<AuthorisationAnswer> {
    const { operationId } = request
    const { answer, cancelled } = await answers.keep(operationId, decide(request, seal, now()), now())
    if (cancelled) return { approved: false, error: cancelledError, card: answer.card }
    if (answer.approved) await journal.append(eventsOfAuthorisation(request, answer.reference))
    return answer
  }

  function eventsOfAuthorisation({ operationId }: AuthorisationRequest, reference: string): DueEvent[] {
    if (cardOfReference(reference)?.later !== 'fraud') return []
    const dueMs = now() + eventDelayMs
    const id = `fraud_${seal.sign('fraud', operationId)}`
    return [{ dueMs, event: { kind: 'fraud', id, reference, occurredMs: dueMs, reason: fraudReason } }]
  }

  function eventsOfCapture({ operationId, reference, amount, currency }: FollowUpRequest): DueEvent[] {
    const later = cardOfReference(reference)?.later
    if (later === undefined || later === 'fraud') return []
    const dispute = `dispute_${seal.sign('dispute', operationId)}`
    const raisedMs = now() + eventDelayMs
    const raised: DueEvent = {
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
    if (later === 'dispute-open') return [raised]
    const resolvedMs = raisedMs + eventDelayMs
    const outcome = later === 'dispute-won' ? 'won' : 'lost'
    const id = `${dispute}_${outcome}`
    const event = {
      kind: 'dispute-resolved',
      id,
      dispute,
      reference,
      occurredMs: resolvedMs,
      outcome,
    } as const
    return [raised, { dueMs: resolvedMs, event }]
  }

  return {
    authenticate: async request => authenticate(request, seal, now()),
    answerChallenge: async (authentication, confirmed) => answerChallenge(authentication, confirmed, seal),
    authorise,
    async cancelAuthorisation({ operationId }) {
      const { answer } = await answers.cancel(operationId, cancelledAnswer, now())
      return { wasApproved: answer.approved }
    },
    capture: async request => journal.append(eventsOfCapture(request)),
    refund: async () => {},
    void: async () => {},
    pullEvents: limit => journal.due(now(), limit),
    acknowledge: eventIds => journal.remove(eventIds),
  }
}

/** Keyed hashes. */
interface Seal {
  sign(...parts: readonly string[]): string
  isSignature(found: string, ...parts: readonly string[]): boolean
}

function createSeal(key: Uint8Array): Seal {
  const sign = (...parts: readonly string[]) =>
    createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex').slice(0, 32)
  return {
    sign,
    isSignature(found, ...parts) {
      const expected = Buffer.from(sign(...parts))
      const given = Buffer.from(found)
      return given.length === expected.length && timingSafeEqual(given, expected)
    },
  }
}

function decide(request: AuthorisationRequest, seal: Seal, nowMs: number): AuthorisationAnswer {
  const { source } = request
  return 'token' in source
    ? decideToken(source.token, request, seal, nowMs)
    : decideAuthenticated(source.authentication, request, seal)
}

function decideAuthenticated(
  authentication: string,
  { operationId, amount, currency }: AuthorisationRequest,
  seal: Seal,
): AuthorisationAnswer {
  const known = readAuthentication(authentication, seal)
  if (known === undefined) return { approved: false, error: 2, card: null }
  const { testCard, details, fingerprint, state } = known
  const token = tokenOf(testCard, details.expiry, fingerprint, seal)
  const card: KnownCard = { details, reference: { token, fingerprint } }
  const isOther = known.amount !== String(amount) || known.currency !== currency
  const tds = state === 'attempt' || state === 'full' ? state : null
  const error = isOther ? 31 : declineOf(testCard, tds)
  if (error !== undefined) return { approved: false, error, card }
  return { approved: true, reference: referenceOf(testCard, operationId, seal), tds, card }
}

function declineOf(card: TestCard, tds: Tds | null): ProcessingErrorCode | undefined {
  if (card.declines !== undefined) return card.declines
  if (card.tds === 'failed') return 31
  return card.tds === 'required' && tds !== 'full' ? 30 : undefined
}

function decideToken(
  token: string,
  { operationId }: AuthorisationRequest,
  seal: Seal,
  nowMs: number,
): AuthorisationAnswer {
  const known = readToken(token, seal)
  if (known === undefined) return { approved: false, error: 2, card: null }
  const error = declineOfRecurring(known, nowMs)
  if (error !== undefined) return { approved: false, error, card: null }
  const reference = referenceOf(known.testCard, operationId, seal)
  return { approved: true, reference, tds: null, card: null }
}

function declineOfRecurring(
  { testCard, expiry }: KnownToken,
  nowMs: number,
): ProcessingErrorCode | undefined {
  if (nowMs > expiryMs(expiry)) return 6
  const { declines, declinesRecurring, tds } = testCard
  return declines ?? declinesRecurring ?? (tds === 'required' || tds === 'failed' ? 30 : undefined)
}

interface KnownToken {
  readonly testCard: TestCard
  readonly expiry: CardExpiry
}

/** `test_<name of the test card>_<expiry as yyyymm>_<fingerprint>_<signature>`. */
function tokenOf(card: TestCard, { year, month }: CardExpiry, fingerprint: string, seal: Seal): string {
  const expiry = `${year}${String(month).padStart(2, '0')}`
  return ['test', card.name, expiry, fingerprint, seal.sign('token', card.name, expiry, fingerprint)].join(
    '_',
  )
}

const tokenPattern = /^test_([a-z0-9-]+)_(\d{4})(\d{2})_([0-9a-f]{32})_([0-9a-f]{32})$/

function readToken(token: string, seal: Seal): KnownToken | undefined {
  const [, name = '', year = '', month = '', fingerprint = '', signature = ''] =
    tokenPattern.exec(token) ?? []
  const testCard = testCardNamed(name)
  if (testCard === undefined || !seal.isSignature(signature, 'token', name, year + month, fingerprint)) {
    return undefined
  }
  return { testCard, expiry: { year: Number(year), month: Number(month) } }
}

/** `test_<name of the test card>_<hash of the operation>`. */
function referenceOf(card: TestCard, operationId: string, seal: Seal): string {
  return ['test', card.name, seal.sign('reference', operationId)].join('_')
}

function cardOfReference(reference: string): TestCard | undefined {
  return testCardNamed(reference.split('_')[1] ?? '')
}

/** `asked`: the payer has not confirmed yet. */
type AuthenticationState = 'none' | 'attempt' | 'asked' | 'full'

/** What a reference of an authentication says: enough to authorise, and less than a card. */
interface KnownAuthentication {
  readonly testCard: TestCard
  readonly details: CardDetails
  readonly fingerprint: string
  readonly amount: string
  readonly currency: string
  readonly state: AuthenticationState
}

/** The parts of the authentication in this order, and their hash. */
function authenticationOf(known: KnownAuthentication, seal: Seal): string {
  const { testCard, details, fingerprint, amount, currency, state } = known
  const { bin, last4, scheme, expiry } = details
  const month = `${expiry.year}${String(expiry.month).padStart(2, '0')}`
  const parts = [testCard.name, bin, last4, month, scheme, fingerprint, amount, currency, state]
  return ['auth', ...parts, seal.sign('authentication', ...parts)].join('_')
}

const authenticationPattern =
  /^auth_([a-z0-9-]+)_(\d{6})_(\d{4})_(\d{4})(\d{2})_(visa|mastercard)_([^_]+)_(\d+)_([A-Z]{3})_([a-z]+)_[^_]+$/

function readAuthentication(text: string, seal: Seal): KnownAuthentication | undefined {
  const found = authenticationPattern.exec(text)
  if (found === null) return undefined
  const [, name = '', bin = '', last4 = '', year, month, scheme, fingerprint = '', amount = ''] = found
  const [, , , , , , , , , currency = '', state] = found
  const testCard = testCardNamed(name)
  if (testCard === undefined) return undefined
  const known: KnownAuthentication = {
    testCard,
    details: {
      bin,
      last4,
      expiry: { year: Number(year), month: Number(month) },
      scheme: scheme as CardScheme,
    },
    fingerprint,
    amount,
    currency,
    state: state as AuthenticationState,
  }
  return authenticationOf(known, seal) === text ? known : undefined
}

function authenticate(request: AuthenticationRequest, seal: Seal, nowMs: number): Authentication {
  const read = readCard(request.card, nowMs)
  if ('error' in read) return { result: 'declined', error: read.error }
  const testCard = testCardOf(read.number)
  const { tds } = testCard
  const known = {
    testCard,
    details: read.details,
    fingerprint: seal.sign('fingerprint', read.number),
    amount: String(request.amount),
    currency: request.currency,
  }
  const refer = (state: AuthenticationState) => authenticationOf({ ...known, state }, seal)
  if (tds === undefined) return { result: 'ready', authentication: refer('none') }
  if (tds === 'attempt') return { result: 'ready', authentication: refer('attempt') }
  return { result: 'challenge', authentication: refer('asked') }
}

function answerChallenge(authentication: string, confirmed: boolean, seal: Seal): ChallengeResult {
  const known = readAuthentication(authentication, seal)
  const isConfirmed = known?.state === 'asked' && confirmed && known.testCard.tds !== 'failed'
  if (!isConfirmed) return { result: 'failed', error: 31 }
  return { result: 'ready', authentication: authenticationOf({ ...known, state: 'full' }, seal) }
}
