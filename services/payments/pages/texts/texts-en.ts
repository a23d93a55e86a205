import {
  type ProcessingErrorCode,
  processingError,
  processingErrorCodes,
} from '../../domain/transaction/processing-errors.ts'
import type { CardFieldError } from '../card-fields.ts'

const ifSent = 'If you have sent the card before, ask the shop or your bank first whether you have paid.'
const askTheShop = 'Please ask the shop for a new link.'

export const english = {
  /** The name of the language in the language itself. */
  language: 'English',
  testMode: 'Test mode',
  testModeNote: 'No money is moved.',
  payTo: 'Pay to',
  reference: 'Reference',
  chooseLanguage: 'Language',
  card: {
    title: 'Pay by card',
    heading: 'Card details',
    number: 'Card number',
    accepted: 'Visa and Mastercard',
    expiry: 'Expiry date',
    expiryHint: 'Month / year',
    expiryPlaceholder: 'MM / YY',
    code: 'Security code',
    codeHint: '3 digits on the back',
    pay: (amount: string) => `Pay ${amount}`,
    paying: 'Paying…',
    privacy: 'The shop never sees your card number.',
    continuesTo: (host: string) => `After the payment you go on to ${host}.`,
    changeAmount: 'Change the amount',
    formError: 'Please check the fields that are marked.',
    errors: {
      'number-missing': 'Enter the card number.',
      'number-incomplete': 'The card number is too short.',
      'number-scheme': 'Only Visa and Mastercard can be used here.',
      'number-wrong': 'There is a mistake in the card number.',
      'number-real': 'This shop is in test mode. Use one of the test cards below.',
      'expiry-missing': 'Enter the expiry date.',
      'expiry-wrong': 'Enter the month and year, such as 08 / 29.',
      'expiry-past': 'This card has expired.',
      'code-missing': 'Enter the security code.',
      'code-wrong': 'The code has 3 digits.',
    } satisfies Record<CardFieldError, string>,
    formExpired: 'This page was open for a long time; please enter the card once more.',
    testCards: 'Cards to try with',
    testCardsNote: 'With any date to come and any 3 digits.',
    /** The test cards that the page shows for test merchants, by name; see `testCards`. */
    testCardMeanings: {
      visa: 'is approved',
      'declined-7': 'has too little money',
      'tds-full': 'asks to confirm with the bank',
      'tds-failed': 'fails at the bank',
    },
  },
  amount: {
    title: 'Enter the amount',
    heading: 'How much do you want to pay?',
    label: 'Amount',
    currency: 'Currency',
    hint: (example: string) => `For example ${example}`,
    next: 'Continue',
    error: (example: string) => `Enter an amount above zero, such as ${example}.`,
    noDecimals: (example: string) =>
      `This currency has no decimals. Enter a whole amount, such as ${example}.`,
    tooManyDecimals: (example: string) => `The amount has too many decimals. Enter it such as ${example}.`,
    currencyError: 'Choose a currency from the list.',
  },
  challenge: {
    title: 'Confirm the payment',
    heading: 'Confirm the payment',
    bank: 'Test bank',
    explanation: 'In test mode this page stands in for your bank, which asks whether it is you who pays.',
    shop: 'Shop',
    amount: 'Amount',
    card: 'Card',
    confirm: 'Confirm',
    reject: 'Refuse',
    working: 'One moment…',
  },
  receipt: {
    title: 'Payment complete',
    heading: 'Payment complete',
    paid: 'Paid',
    to: 'To',
    card: 'Card',
    date: 'Date',
    transaction: 'Payment number',
    continueTo: (host: string) => `Continue to ${host}`,
    continuesSoon: 'You go on in a few seconds.',
    stay: 'Stay here',
    close: 'You can close this page.',
    newPayment: 'New payment',
  },
  declined: {
    title: 'Payment declined',
    heading: 'The payment was declined',
    notCharged: 'Nothing was charged.',
    tryAgain: 'Try again',
  },
  problems: {
    incomplete: { title: 'This link is not complete', text: `It does not say whom it pays. ${askTheShop}` },
    'unknown-merchant': {
      title: 'This shop is not known',
      text: `The link may have been cut off. ${askTheShop}`,
    },
    closed: {
      title: 'This shop takes no payments any more',
      text: 'Please contact the shop if you still want to pay.',
    },
    'no-processor': {
      title: 'This shop cannot take payments yet',
      text: 'Do not enter a card for this shop. Please contact the shop if you want to pay.',
    },
    'unknown-currency': {
      title: 'The currency does not exist',
      text: `The link has a mistake. ${askTheShop}`,
    },
    'currency-not-accepted': {
      title: 'This currency is not accepted',
      text: `The shop cannot take payments in the currency of the link. ${askTheShop}`,
    },
    'wrong-amount': { title: 'The amount is not valid', text: `The link has a mistake. ${askTheShop}` },
    'wrong-redirect': {
      title: 'This link leads nowhere',
      text: `The address that it would go on to is not one of the web. ${askTheShop}`,
    },
    malformed: { title: 'This link cannot be read', text: `The link has a mistake. ${askTheShop}` },
    'not-found': { title: 'There is nothing here', text: 'Please open the link of the shop once more.' },
    'outcome-gone': {
      title: 'This receipt is no longer shown',
      text: 'If you want to know about your payment, please contact the shop.',
    },
    'form-expired': {
      title: 'This page was open for too long',
      text: `Please start the payment once more. ${ifSent}`,
    },
    'foreign-form': {
      title: 'This came from another site',
      text: 'The card was not used. Please open the link of the shop and enter the card there.',
    },
    unreadable: {
      title: 'This cannot be read',
      text: `Please start the payment once more. ${ifSent}`,
    },
    'too-many': {
      title: 'Too many attempts',
      text: 'This attempt was not made. Please wait a minute and try again.',
    },
    'outcome-unknown': {
      title: 'We do not know yet',
      text: 'The answer about your payment takes long. Look again in a moment. You pay only once.',
    },
    failed: {
      title: 'Something went wrong here',
      text: `Please try again in a few minutes. ${ifSent}`,
    },
    'not-paid': {
      title: 'No payment was made',
      text: 'If your bank has reserved the amount, it is released. You can start the payment once more.',
    },
  },
  reloadOutcome: 'Look again',
  forMerchant: 'For the shop',
  /** Why the payment was declined, for the payer, by processing error. */
  declines: Object.fromEntries(
    processingErrorCodes.map(code => [code, processingError(code).client]),
  ) as Record<ProcessingErrorCode, string>,
}

export type Texts = typeof english
