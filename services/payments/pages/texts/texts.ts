import type { Locale } from '../../domain/input/request-bodies.ts'
import type { ProcessingErrorCode } from '../../domain/transaction/processing-errors.ts'
import type { CardFieldError } from '../card-fields.ts'
import type { LinkFault } from '../link.ts'
import { danish } from './texts-da.ts'
import { english } from './texts-en.ts'

export interface Texts {
  /** The name of the language in the language itself. */
  readonly language: string
  readonly testMode: string
  readonly testModeNote: string
  readonly payTo: string
  readonly reference: string
  readonly chooseLanguage: string
  readonly card: CardTexts
  readonly amount: AmountTexts
  readonly challenge: ChallengeTexts
  readonly receipt: ReceiptTexts
  readonly declined: DeclinedTexts
  readonly problems: Readonly<Record<PageProblem, Explanation>>
  readonly reloadOutcome: string
  readonly forMerchant: string
  /** Why the payment was declined, for the payer, by processing error. */
  readonly declines: Readonly<Record<ProcessingErrorCode, string>>
}

export interface CardTexts {
  readonly title: string
  readonly heading: string
  readonly number: string
  readonly accepted: string
  readonly expiry: string
  readonly expiryHint: string
  readonly expiryPlaceholder: string
  readonly code: string
  readonly codeHint: string
  pay(amount: string): string
  readonly paying: string
  readonly privacy: string
  continuesTo(host: string): string
  readonly changeAmount: string
  readonly formError: string
  readonly errors: Readonly<Record<CardFieldError, string>>
  readonly formExpired: string
  readonly testCards: string
  readonly testCardsNote: string
  readonly testCardMeanings: Readonly<Record<ShownTestCard, string>>
}

/** The names of the test cards that the page shows for test merchants; see `testCards`. */
export const shownTestCards = ['visa', 'declined-7', 'tds-full', 'tds-failed'] as const
type ShownTestCard = (typeof shownTestCards)[number]

interface AmountTexts {
  readonly title: string
  readonly heading: string
  readonly label: string
  readonly currency: string
  hint(example: string): string
  readonly next: string
  error(example: string): string
  /** The error of an amount with decimals in a currency without decimals. */
  noDecimals(example: string): string
  tooManyDecimals(example: string): string
  readonly currencyError: string
}

interface ChallengeTexts {
  readonly title: string
  readonly heading: string
  readonly bank: string
  readonly explanation: string
  readonly shop: string
  readonly amount: string
  readonly card: string
  readonly confirm: string
  readonly reject: string
  readonly working: string
}

interface ReceiptTexts {
  readonly title: string
  readonly heading: string
  readonly paid: string
  readonly to: string
  readonly card: string
  readonly date: string
  readonly transaction: string
  continueTo(host: string): string
  readonly continuesSoon: string
  readonly stay: string
  readonly close: string
  readonly newPayment: string
}

interface DeclinedTexts {
  readonly title: string
  readonly heading: string
  readonly notCharged: string
  readonly tryAgain: string
}

/** The problems that the problem page explains: faults of links, and others. */
export type PageProblem =
  | LinkFault
  | 'not-found'
  | 'outcome-gone'
  | 'form-expired'
  | 'foreign-form'
  | 'unreadable'
  | 'too-many'
  | 'outcome-unknown'
  | 'not-paid'
  | 'failed'

interface Explanation {
  readonly title: string
  /** What happened, and what the payer can do next. */
  readonly text: string
}

const catalogue: Readonly<Record<Locale, Texts>> = { en: english, da: danish }

export function textsFor(locale: Locale): Texts {
  return catalogue[locale]
}
