interface Texts {
  readonly message: string
  /** The text for the payer, in English. */
  readonly client: string
  /** The text for the merchant, in English. */
  readonly merchant: string
  /** Whether the same payment can succeed later, with the same card and data. */
  readonly retry: boolean
}

/** Why a payment was declined or could not be made, with a code of the public API. */
export interface ProcessingError extends Texts {
  readonly code: ProcessingErrorCode
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

/** The codes are those of the public API; the texts are this service's own. */
const texts = {
  1: decline('Invalid currency', 'The currency does not exist, or there is no rate for it.', shopError),
  2: decline('Invalid card details', 'The card details are not those of a card.', checkCard),
  3: decline('Invalid card number', 'The card number has a mistake.', 'Please check the card number.'),
  4: decline('Invalid card verification code', 'The verification code is wrong.', 'Please check the code.'),
  5: decline('Invalid expiry date', 'The expiry date is not a date.', 'Please check the expiry date.'),
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
  13: decline(
    'Invalid descriptor',
    'The descriptor has more than 22 characters or some that are not printable.',
    shopError,
  ),
  14: decline('Invalid amount', 'The amount is not a whole number of minor units above zero.', shopError),
  15: decline('Missing amount', 'There is no amount.', shopError),
  16: decline('Missing currency', 'There is no currency.', shopError),
  17: decline('Missing card number', 'There is no card number.', 'Please fill in the card number.'),
  18: decline('Missing expiry month', 'There is no expiry month.', 'Please fill in the expiry date.'),
  19: decline('Missing expiry year', 'There is no expiry year.', 'Please fill in the expiry date.'),
  20: decline('Missing card verification code', 'There is no verification code.', 'Please fill in the code.'),
  21: decline('Missing HTTPS', 'Card details were sent without encryption.', shopError),
  22: decline('Amount too large', 'The amount is above what one transaction may have.', shopError),
  25: retryable(
    'Card amount limit exceeded',
    'The card has reached a limit that its bank set; it can be raised or pass.',
    'The payment is above the limit of the card. Please use another card.',
  ),
  26: decline('Invalid merchant key', 'There is no merchant with this public key.', shopError),
  27: decline('Transactions not allowed', 'This merchant may not create transactions.', shopError),
  28: decline('Saving cards not allowed', 'This merchant may not save cards.', shopError),
  29: decline(
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
