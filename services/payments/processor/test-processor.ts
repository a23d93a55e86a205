import { type CardDetails, type CardExpiry, type CardScheme, expiryMs } from '../domain/card.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { Tds } from '../domain/transaction/transaction.ts'
import { readCard } from './card-number.ts'
import { FollowingEvents } from './following-events.ts'
import type {
  Authentication,
  AuthenticationRequest,
  AuthorisationAnswer,
  AuthorisationRequest,
  CardProcessor,
  ChallengeResult,
  KnownCard,
} from './processor.ts'
import { findTestCard, findTestCardByName, type TestCard } from './test-cards.ts'
import { createReference, KeyedHashes } from './test-references.ts'
import type { AnswerStore, EventJournal } from './test-stores.ts'

interface TestProcessorOptions {
  /** The secret key of the hashes in tokens, references and fingerprints. At least 16 bytes. */
  readonly key: Uint8Array
  readonly journal: EventJournal
  readonly answers: AnswerStore
  /** Returns the time in milliseconds since the epoch. */
  readonly now: () => number
  /** The delay of a fraud alert, of a dispute after a capture, and of the end of a dispute. */
  readonly eventDelayMs: number
}

const minKeyBytes = 16
/** Processing error 11, 'Transaction rejected': the error of a cancelled authorisation. */
const cancelledError = 11
const cancelledAnswer: AuthorisationAnswer = { approved: false, error: cancelledError, card: null }

/**
 * A card processor that moves no money: the number of a card determines its answers (see `testCards`). Tokens
 * and references contain the name of the test card, so that no card is stored. The first answer to each
 * authorisation is stored for repeated calls. Future events are stored in the journal.
 */
export function createTestProcessor(options: TestProcessorOptions): CardProcessor {
  const { key, journal, answers, now, eventDelayMs } = options
  if (key.byteLength < minKeyBytes) {
    throw new RangeError(`key: has ${key.byteLength} bytes; at least ${minKeyBytes} are needed`)
  }
  const hashes = new KeyedHashes(key)
  const followingEvents = new FollowingEvents(hashes, now, eventDelayMs)

  async function authorise(request: AuthorisationRequest): Promise<AuthorisationAnswer> {
    const { operationId } = request
    const { answer, cancelled } = await answers.keep(operationId, decide(request, hashes, now()), now())
    if (cancelled) return { approved: false, error: cancelledError, card: answer.card }
    if (answer.approved) await journal.append(followingEvents.afterAuthorisation(request, answer.reference))
    return answer
  }

  return {
    authenticate: async request => authenticate(request, hashes, now()),
    answerChallenge: async (authentication, confirmed) => answerChallenge(authentication, confirmed, hashes),
    authorise,
    async cancelAuthorisation({ operationId }) {
      const { answer } = await answers.cancel(operationId, cancelledAnswer, now())
      return { wasApproved: answer.approved }
    },
    capture: async request => journal.append(followingEvents.afterCapture(request)),
    refund: async () => {},
    void: async () => {},
    pullEvents: limit => journal.due(now(), limit),
    acknowledge: eventIds => journal.remove(eventIds),
  }
}

function decide(request: AuthorisationRequest, hashes: KeyedHashes, nowMs: number): AuthorisationAnswer {
  const { source } = request
  return 'token' in source
    ? decideToken(source.token, request, hashes, nowMs)
    : decideAuthenticated(source.authentication, request, hashes)
}

function decideAuthenticated(
  authentication: string,
  { operationId, amount, currency }: AuthorisationRequest,
  hashes: KeyedHashes,
): AuthorisationAnswer {
  const known = readAuthentication(authentication, hashes)
  if (known === undefined) return { approved: false, error: 2, card: null }
  const { testCard, details, fingerprint, state } = known
  const token = createToken(testCard, details.expiry, fingerprint, hashes)
  const card: KnownCard = { details, reference: { token, fingerprint } }
  const isOther = known.amount !== String(amount) || known.currency !== currency
  const tds = state === 'attempt' || state === 'full' ? state : null
  const error = isOther ? 31 : findDecline(testCard, tds)
  if (error !== undefined) return { approved: false, error, card }
  return { approved: true, reference: createReference(testCard, operationId, hashes), tds, card }
}

function findDecline(card: TestCard, tds: Tds | null): ProcessingErrorCode | undefined {
  if (card.declines !== undefined) return card.declines
  if (card.tds === 'failed') return 31
  return card.tds === 'required' && tds !== 'full' ? 30 : undefined
}

function decideToken(
  token: string,
  { operationId }: AuthorisationRequest,
  hashes: KeyedHashes,
  nowMs: number,
): AuthorisationAnswer {
  const known = readToken(token, hashes)
  if (known === undefined) return { approved: false, error: 2, card: null }
  const error = findRecurringDecline(known, nowMs)
  if (error !== undefined) return { approved: false, error, card: null }
  const reference = createReference(known.testCard, operationId, hashes)
  return { approved: true, reference, tds: null, card: null }
}

function findRecurringDecline(
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

/** Returns `test_<name of the test card>_<expiry as yyyymm>_<fingerprint>_<signature>`. */
function createToken(
  card: TestCard,
  { year, month }: CardExpiry,
  fingerprint: string,
  hashes: KeyedHashes,
): string {
  const expiry = `${year}${String(month).padStart(2, '0')}`
  return ['test', card.name, expiry, fingerprint, hashes.sign('token', card.name, expiry, fingerprint)].join(
    '_',
  )
}

const tokenPattern = /^test_([a-z0-9-]+)_(\d{4})(\d{2})_([0-9a-f]{32})_([0-9a-f]{32})$/

function readToken(token: string, hashes: KeyedHashes): KnownToken | undefined {
  const [, name = '', year = '', month = '', fingerprint = '', signature = ''] =
    tokenPattern.exec(token) ?? []
  const testCard = findTestCardByName(name)
  if (testCard === undefined || !hashes.isSignature(signature, 'token', name, year + month, fingerprint)) {
    return undefined
  }
  return { testCard, expiry: { year: Number(year), month: Number(month) } }
}

/**
 * `none`: the card has no 3-D Secure. `asked`: the payer has not confirmed yet. `full`: the payer has
 * confirmed. `attempt`: the bank does not take part.
 */
type AuthenticationState = 'none' | 'attempt' | 'asked' | 'full'

/** The content of the reference of an authentication. It suffices to authorise, and has no card number. */
interface KnownAuthentication {
  readonly testCard: TestCard
  readonly details: CardDetails
  readonly fingerprint: string
  readonly amount: string
  readonly currency: string
  readonly state: AuthenticationState
}

/** Returns the reference: the parts in this order and their hash, joined by underscores. */
function createAuthentication(known: KnownAuthentication, hashes: KeyedHashes): string {
  const { testCard, details, fingerprint, amount, currency, state } = known
  const { bin, last4, scheme, expiry } = details
  const month = `${expiry.year}${String(expiry.month).padStart(2, '0')}`
  const parts = [testCard.name, bin, last4, month, scheme, fingerprint, amount, currency, state]
  return ['auth', ...parts, hashes.sign('authentication', ...parts)].join('_')
}

const authenticationPattern =
  /^auth_([a-z0-9-]+)_(\d{6})_(\d{4})_(\d{4})(\d{2})_(visa|mastercard)_([^_]+)_(\d+)_([A-Z]{3})_([a-z]+)_[^_]+$/

function readAuthentication(text: string, hashes: KeyedHashes): KnownAuthentication | undefined {
  const found = authenticationPattern.exec(text)
  if (found === null) return undefined
  const [, name = '', bin = '', last4 = '', year, month, scheme, fingerprint = '', amount = ''] = found
  const [, , , , , , , , , currency = '', state] = found
  const testCard = findTestCardByName(name)
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
  return createAuthentication(known, hashes) === text ? known : undefined
}

function authenticate(request: AuthenticationRequest, hashes: KeyedHashes, nowMs: number): Authentication {
  const read = readCard(request.card, nowMs)
  if ('error' in read) return { result: 'declined', error: read.error }
  const testCard = findTestCard(read.number)
  const { tds } = testCard
  const known = {
    testCard,
    details: read.details,
    fingerprint: hashes.sign('fingerprint', read.number),
    amount: String(request.amount),
    currency: request.currency,
  }
  const refer = (state: AuthenticationState) => createAuthentication({ ...known, state }, hashes)
  if (tds === undefined) return { result: 'ready', authentication: refer('none') }
  if (tds === 'attempt') return { result: 'ready', authentication: refer('attempt') }
  return { result: 'challenge', authentication: refer('asked') }
}

function answerChallenge(authentication: string, confirmed: boolean, hashes: KeyedHashes): ChallengeResult {
  const known = readAuthentication(authentication, hashes)
  const isConfirmed = known?.state === 'asked' && confirmed && known.testCard.tds !== 'failed'
  if (!isConfirmed) return { result: 'failed', error: 31 }
  return { result: 'ready', authentication: createAuthentication({ ...known, state: 'full' }, hashes) }
}
