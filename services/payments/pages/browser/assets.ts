import { createHash } from 'node:crypto'
import { expiryMs, hasValidCheckDigit } from '../../domain/card.ts'
import { detectScheme, normaliseNumber, publicTestCard, testPrefixes } from '../../processor/card-number.ts'
import { checkCode, checkExpiry, checkNumber, groupExpiry, groupNumber, readExpiry } from '../card-fields.ts'
import { enhanceCardForm, formatInPlace, showFieldError } from '../views/card-form.ts'
import { continueToShop, reloadOnReturn, showLocalTimes, submitOnce } from './page-behaviour.ts'
import { icon, styles } from './styles.ts'

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
const browserScript = `(() => {
${browserFunctions}
${enhanceCardForm.name}(document, () => Date.now())
${submitOnce.name}(document, window)
${continueToShop.name}(document, window)
${reloadOnReturn.name}(document, window)
${showLocalTimes.name}(document)
})()
`

/**
 * A file that the pages load. Its path has a hash of the content, so that browsers can cache the file for
 * ever.
 */
export interface Asset {
  readonly path: string
  readonly type: string
  readonly content: string
  /** The hash of the content, with which browsers reject a changed file (Subresource Integrity). */
  readonly integrity: string
  /** Why the pages load the file, for the inventory that PCI DSS requires. */
  readonly purpose: string
}

export function hashForIntegrity(content: string): string {
  return `sha384-${createHash('sha384').update(content).digest('base64')}`
}

interface Source extends Pick<Asset, 'type' | 'content' | 'purpose'> {
  readonly name: string
  readonly ending: string
}

function asset({ name, ending, type, content, purpose }: Source): Asset {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 12)
  return {
    path: `assets/${name}-${hash}.${ending}`,
    type,
    content,
    integrity: hashForIntegrity(content),
    purpose,
  }
}

export const assets = {
  style: asset({
    name: 'pay',
    ending: 'css',
    type: 'text/css; charset=utf-8',
    content: styles,
    purpose: 'Layout and colours.',
  }),
  script: asset({
    name: 'pay',
    ending: 'js',
    type: 'text/javascript; charset=utf-8',
    content: browserScript,
    purpose:
      'Groups the digits of the card form, checks its fields before it is sent, keeps it from being sent twice, ' +
      'and opens the shop after a payment. It sends and stores no data.',
  }),
  icon: asset({
    name: 'icon',
    ending: 'svg',
    type: 'image/svg+xml',
    content: icon,
    purpose: 'The icon of the browser tab.',
  }),
} as const satisfies Readonly<Record<string, Asset>>

/**
 * The headers of every page and file. With them, a page loads only scripts, styles and images of the service,
 * sends forms only to the service, cannot be framed by another site, is not cached, and sends no referrer.
 */
export const pageHeaders = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'cache-control': 'no-store',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'x-robots-tag': 'noindex',
} as const
