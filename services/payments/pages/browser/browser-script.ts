import { expiryMs, hasValidCheckDigit } from '../../domain/merchant/card.ts'
import { detectScheme, normaliseNumber, publicTestCard, testPrefixes } from '../../processor/card-number.ts'
import { checkCode, checkExpiry, checkNumber, groupExpiry, groupNumber, readExpiry } from '../card-fields.ts'
import { enhanceCardForm, formatInPlace, showFieldError } from '../views/card-form.ts'
import { continueToShop, reloadOnReturn, showLocalTimes, submitOnce } from './page-behaviour.ts'

/**
 * All functions that run in the browser. Their source text is sent, so that the server, the tests and the
 * browser use the same functions. Each may use only its parameters, the globals of browsers, the other
 * functions of this list, and the constants below.
 */
const functions = [
  normaliseNumber,
  hasValidCheckDigit,
  detectScheme,
  expiryMs,
  checkNumber,
  readExpiry,
  checkExpiry,
  checkCode,
  groupNumber,
  groupExpiry,
  formatInPlace,
  showFieldError,
  enhanceCardForm,
  submitOnce,
  continueToShop,
  reloadOnReturn,
  showLocalTimes,
]
const constants = { publicTestCard, testPrefixes }

/** The functions and constants alone, which do nothing by themselves. */
export const browserFunctions = [
  "'use strict'",
  ...Object.entries(constants).map(([name, value]) => `const ${name} = ${JSON.stringify(value)}`),
  ...functions.map(String),
].join('\n')

/** The script of the pages. Every page works without it. */
export const browserScript = `(() => {
${browserFunctions}
${enhanceCardForm.name}(document, () => Date.now())
${submitOnce.name}(document, window)
${continueToShop.name}(document, window)
${reloadOnReturn.name}(document, window)
${showLocalTimes.name}(document)
})()
`
