import { expiryMs, hasValidCheckDigit } from '../../domain/merchant/card.ts'
import { detectScheme, normaliseNumber, publicTestCard, testPrefixes } from '../../processor/card-number.ts'
import { checkCode, checkExpiry, checkNumber, groupExpiry, groupNumber, readExpiry } from '../card-fields.ts'
import { enhanceCardForm, formatInPlace, showFieldError } from '../views/card-form.ts'
import { continueToShop, reloadOnReturn, showLocalTimes, submitOnce } from './page-behaviour.ts'

/**
 * All functions that run in the browser. The script contains their source text, so that the server, the tests
 * and the browser use the same functions. A function may use only its parameters, the globals of browsers,
 * the functions of this list and `constants`.
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

/** The source text of the functions and constants, without any call. */
export const browserFunctions = [
  "'use strict'",
  ...Object.entries(constants).map(([name, value]) => `const ${name} = ${JSON.stringify(value)}`),
  ...functions.map(String),
].join('\n')

/** The script of the pages. All pages also work without it. */
export const browserScript = `(() => {
${browserFunctions}
${enhanceCardForm.name}(document, () => Date.now())
${submitOnce.name}(document, window)
${continueToShop.name}(document, window)
${reloadOnReturn.name}(document, window)
${showLocalTimes.name}(document)
})()
`
