import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'

/** A test card, for which any future date of expiry and any code of 3 digits are valid. */
export interface TestCard {
  /** The number in groups of four digits, as people type it. */
  readonly number: string
  /** Identifies the test card in tokens and references. */
  readonly name: string
  readonly means: string
  /** The error of every payment with this card; missing if payments are not always declined. */
  readonly declines?: ProcessingErrorCode
  /** The error of recurring payments with this card. */
  readonly declinesRecurring?: ProcessingErrorCode
  readonly tds?: TestTds
  /** The event that the test processor reports later; missing for none. */
  readonly later?: LaterEvent
}

/**
 * How the card behaves with 3-D Secure. `attempt`: the bank does not take part. `full`: the payer is
 * challenged; recurring payments need no challenge. `required`: a payment without a challenge is declined.
 * `failed`: the bank rejects every answer to a challenge.
 */
type TestTds = 'attempt' | 'full' | 'required' | 'failed'

/** `fraud`: a fraud alert after the authorisation. Others: a dispute of each capture, with this outcome. */
type LaterEvent = 'fraud' | 'dispute-open' | 'dispute-won' | 'dispute-lost'

function declined(code: ProcessingErrorCode, number: string, means: string): TestCard {
  return { number, name: `declined-${code}`, means, declines: code }
}

function declinedRecurring(code: ProcessingErrorCode, number: string, means: string): TestCard {
  return { number, name: `recurring-${code}`, means, declinesRecurring: code }
}

/** The numbers with a defined outcome. All other valid numbers are approved. */
export const testCards: readonly TestCard[] = [
  { number: '1000 0000 0000 0000', name: 'public', means: 'approved; the test card of the public service' },
  { number: '4100 0000 0000 0001', name: 'visa', means: 'approved' },
  { number: '5500 0000 0000 0004', name: 'mastercard', means: 'approved' },
  { number: '2221 0000 0000 0009', name: 'mastercard-2', means: 'approved, of the newer range' },

  declined(1, '4100 0000 0100 1008', 'invalid currency'),
  declined(2, '4100 0000 0100 2006', 'invalid card details'),
  declined(3, '4100 0000 0100 3004', 'invalid card number'),
  declined(4, '4100 0000 0100 4002', 'invalid verification code'),
  declined(5, '4100 0000 0100 5009', 'invalid expiry date'),
  declined(6, '4100 0000 0100 6007', 'card expired'),
  declined(7, '4100 0000 0100 7005', 'insufficient funds'),
  declined(8, '4100 0000 0100 8003', 'declined by the cardholder’s bank'),
  declined(9, '4100 0000 0100 9001', 'card restricted'),
  declined(10, '4100 0000 0101 0009', 'card rejected: reported lost or stolen'),
  declined(11, '4100 0000 0101 1007', 'transaction rejected'),
  declined(12, '4100 0000 0101 2005', 'error, try again'),
  declined(13, '4100 0000 0101 3003', 'invalid descriptor'),
  declined(14, '4100 0000 0101 4001', 'invalid amount'),
  declined(22, '4100 0000 0102 2004', 'amount too large'),
  declined(25, '4100 0000 0102 5007', 'card amount limit exceeded'),
  declined(27, '4100 0000 0102 7003', 'transactions not allowed'),
  declined(29, '4100 0000 0102 9009', 'card not supported'),
  declined(30, '4100 0000 0103 0007', '3-D Secure required, which the card cannot'),
  declined(31, '4100 0000 0103 1005', '3-D Secure failed'),

  declinedRecurring(6, '4100 0000 0200 6006', 'approved; recurring: card expired'),
  declinedRecurring(7, '4100 0000 0200 7004', 'approved; recurring: insufficient funds'),
  declinedRecurring(9, '4100 0000 0200 9000', 'approved; recurring: not enabled at the bank'),
  declinedRecurring(10, '4100 0000 0201 0008', 'approved; recurring: reported stolen'),
  declinedRecurring(12, '4100 0000 0201 2004', 'approved; recurring: temporary error'),

  {
    number: '4100 0000 0300 1006',
    name: 'tds-attempt',
    means: 'approved, 3-D Secure attempt',
    tds: 'attempt',
  },
  { number: '4100 0000 0300 2004', name: 'tds-full', means: 'approved, 3-D Secure full', tds: 'full' },
  {
    number: '4100 0000 0300 3002',
    name: 'tds-required',
    means: 'approved only with 3-D Secure, so never recurring',
    tds: 'required',
  },
  { number: '4100 0000 0300 4000', name: 'tds-failed', means: '3-D Secure fails', tds: 'failed' },

  {
    number: '4100 0000 0400 1005',
    name: 'later-fraud',
    means: 'approved; a fraud alert follows',
    later: 'fraud',
  },
  {
    number: '4100 0000 0400 2003',
    name: 'later-dispute',
    means: 'approved; each capture is disputed',
    later: 'dispute-open',
  },
  {
    number: '4100 0000 0400 3001',
    name: 'later-dispute-won',
    means: 'approved; each capture is disputed, which the merchant wins',
    later: 'dispute-won',
  },
  {
    number: '4100 0000 0400 4009',
    name: 'later-dispute-lost',
    means: 'approved; each capture is disputed, which the merchant loses',
    later: 'dispute-lost',
  },
]

/** The outcome of all numbers that are not in `testCards`. */
const otherCard: TestCard = { number: '', name: 'other', means: 'approved' }

const byNumber: ReadonlyMap<string, TestCard> = new Map(
  testCards.map(card => [card.number.replaceAll(' ', ''), card]),
)
const byName: ReadonlyMap<string, TestCard> = new Map(
  [...testCards, otherCard].map(card => [card.name, card]),
)

/** Returns a card that is always approved for other numbers. `number` has only digits. */
export function findTestCard(number: string): TestCard {
  return byNumber.get(number) ?? otherCard
}

export function findTestCardByName(name: string): TestCard | undefined {
  return byName.get(name)
}
