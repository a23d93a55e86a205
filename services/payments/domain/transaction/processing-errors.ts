/** Why a payment was declined or could not be made, with a code of the public API. */
export interface ProcessingError {
  readonly code: ProcessingErrorCode
  readonly message: string
  /** The text for the payer, in English. */
  readonly client: string
  /** The text for the merchant, in English. */
  readonly merchant: string
  /** Whether the same payment can succeed later, with the same card and data. */
  readonly retry: boolean
}

interface Texts {
  readonly message: string
  readonly client: string
  readonly merchant: string
  readonly retry: boolean
}

const otherCard = 'The payment was not made. Please use another card.'
const checkCard = 'Please check the details of the card and try again.'
const shopError = 'The payment could not be started. Please contact the shop.'

function decline(message: string, merchant: string, client = otherCard): Texts {
  return { message, client, merchant, retry: false }
}

function retryable(message: string, merchant: string, client: string): Texts {
  return { message, client, merchant, retry: true }
}

function mistyped(message: string, merchant: string, client = checkCard): Texts {
  return { message, client, merchant, retry: false }
}

function misused(message: string, merchant: string): Texts {
  return { message, client: shopError, merchant, retry: false }
}

/** The codes are those of the public API; the texts are this service's own. */
const texts = {
  1: misused('Invalid currency', 'The currency does not exist, or there is no rate for it.'),
  2: mistyped('Invalid card details', 'The card details are not those of a card.'),
  3: mistyped('Invalid card number', 'The card number has a mistake.', 'Please check the card number.'),
  4: mistyped('Invalid card verification code', 'The verification code is wrong.', 'Please check the code.'),
  5: mistyped('Invalid expiry date', 'The expiry date is not a date.', 'Please check the expiry date.'),
  6: decline('Card expired', 'The card has expired; trying again is of no use.', 'The card has expired.'),
  7: retryable(
    'Insufficient funds',
    'The account has too little money; it can have more later.',
    'There is not enough money on the account. Please use another card.',
  ),
  8: decline(
    'Declined by the cardholder’s bank',
    'The bank said no without a reason; the payer can ask it.',
    'Your bank declined the payment. Please contact it or use another card.',
  ),
  9: decline('Card restricted', 'The bank does not allow this kind of payment with this card.'),
  10: decline('Card rejected', 'The card was reported lost or stolen, or is blocked; do not try again.'),
  11: decline('Transaction rejected', 'The transaction was found too risky.'),
  12: retryable(
    'Error, try again',
    'Something on the way to the bank failed for a moment.',
    'Something went wrong. Please try again.',
  ),
  13: misused(
    'Invalid descriptor',
    'The descriptor has more than 22 characters or some that are not printable.',
  ),
  14: misused('Invalid amount', 'The amount is not a whole number of minor units above zero.'),
  15: misused('Missing amount', 'There is no amount.'),
  16: misused('Missing currency', 'There is no currency.'),
  17: mistyped('Missing card number', 'There is no card number.', 'Please fill in the card number.'),
  18: mistyped('Missing expiry month', 'There is no expiry month.', 'Please fill in the expiry date.'),
  19: mistyped('Missing expiry year', 'There is no expiry year.', 'Please fill in the expiry date.'),
  20: mistyped(
    'Missing card verification code',
    'There is no verification code.',
    'Please fill in the code.',
  ),
  21: misused('Missing HTTPS', 'Card details were sent without encryption.'),
  22: misused('Amount too large', 'The amount is above what one transaction may have.'),
  25: retryable(
    'Card amount limit exceeded',
    'The card has reached a limit that its bank set; it can be raised or pass.',
    'The payment is above the limit of the card. Please use another card.',
  ),
  26: misused('Invalid merchant key', 'There is no merchant with this public key.'),
  27: misused('Transactions not allowed', 'This merchant may not create transactions.'),
  28: misused('Saving cards not allowed', 'This merchant may not save cards.'),
  29: mistyped(
    'Invalid number or card not supported',
    'The number is of no scheme that is accepted.',
    otherCard,
  ),
  30: decline(
    '3-D Secure required',
    'The bank wants the payer to confirm; the payment needs to be made by the payer.',
    'Your bank asks you to confirm the payment.',
  ),
  31: decline(
    '3-D Secure failed',
    'The payer did not confirm with the bank.',
    'Your bank did not confirm the payment. Please try again or use another card.',
  ),
} as const satisfies Readonly<Record<number, Texts>>

export type ProcessingErrorCode = keyof typeof texts

export const processingErrorCodes = Object.keys(texts).map(Number) as readonly ProcessingErrorCode[]

export function processingError(code: ProcessingErrorCode): ProcessingError {
  return { code, ...texts[code] }
}
