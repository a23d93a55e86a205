import { isObject } from '@tollway/chassis/is-object.ts'

const removed = '(removed)'

const sensitive =
  'pass(?:word|wd|phrase)?|secret|token|authori[sz]ation|credential|api[_-]?key|private[_-]?key|salt|cookie|dsn|' +
  'redis[_-]?auth'
const sensitiveName = new RegExp(sensitive, 'i')

/** Whether the value of a field, setting or header of this name may be a secret. */
function isSensitive(name: string): boolean {
  return sensitiveName.test(name) && !/(?:Name|Ref|Refs)$/.test(name)
}

/**
 * Matches a quoted value. It ends at the next quote with as many backslashes before it as the opening quote
 * has.
 */
const quoted = String.raw`(?<escape>\\*)"[^\n]{0,4000}?(?<!\\)\k<escape>"|'[^'\n]{0,4000}'`
const unclosed = String.raw`\\*["'][^\n]{1,4000}`
const separator = String.raw`(?:\\*["'])?\s{0,20}[:=]\s{0,20}`
const plain = String.raw`[^\s,;{}[\]"'\\]+`

/**
 * Matches the end of a sensitive name, the separator and the value. No unbounded repetition precedes the
 * name, so that a long line takes linear time.
 */
const named = new RegExp(
  String.raw`((?:${sensitive})[\w./-]{0,100})(${separator})(${quoted}|${unclosed}|${plain})`,
  'gi',
)
const userInfo = /\b([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s"'<>]{0,2000}@/gi
const scheme = /\b(bearer|basic)\s+[\w.~+/=-]{3,}/gi
const webToken = /\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*/g
const privateKey = /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g
const signingSecret = /\bwhsec_[\w+/=-]+/g
/** A card number: 13 to 19 digits, of which the first is 2 to 6. Times in milliseconds begin with 1. */
const cardNumber = /\b[2-6](?:[ -]?\d){12,18}\b/g
const harmless = /^(?:true|false|null|-?\d+(?:\.\d+)?)$/

/** @param known known secrets, longer ones first */
export function redactText(text: string, known: readonly string[] = []): string {
  let result = text
  for (const secret of known) result = result.replaceAll(secret, removed)
  return result
    .replace(privateKey, removed)
    .replace(userInfo, `$1${removed}@`)
    .replace(scheme, `$1 ${removed}`)
    .replace(webToken, removed)
    .replace(signingSecret, removed)
    .replace(cardNumber, digits => (passesLuhn(digits) ? removed : digits))
    .replace(named, (whole, name: string, separator: string, value: string) => {
      const isOfJson = /["']/.test(separator)
      if (!isSensitive(name) || (isOfJson && harmless.test(value))) return whole
      const [quote = ''] = /^\\*["']/.exec(value) ?? []
      return `${name}${separator}${quote}${removed}${quote}`
    })
}

function passesLuhn(text: string): boolean {
  const digits = [...text.replace(/\D/g, '')].map(Number).reverse()
  const sum = digits.reduce((total, digit, index) => {
    const doubled = index % 2 === 0 ? digit : digit * 2
    return total + (doubled > 9 ? doubled - 9 : doubled)
  }, 0)
  return sum % 10 === 0
}

/** Numbers, durations, sizes and switches. */
const plainValue = /^(?:true|false|-?\d{1,10}(?:\.\d{1,3})?(?:ms|s|m|h|Ki|Mi|Gi)?)$/
const ownAnnotation = /^(?:tollway\.dev|meta\.helm\.sh|deployment\.kubernetes\.io)\//

/**
 * Returns an object of Kubernetes, or a configuration, without secrets. Of environment variables only plain
 * values are kept, and of annotations of other programs, ConfigMaps and Secrets only the names.
 */
export function redactObject(value: unknown, known: readonly string[] = []): unknown {
  if (typeof value === 'string') return redactText(value, known)
  if (Array.isArray(value)) return value.map(each => redactObject(each, known))
  if (!isObject(value)) return value
  const entries = Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
    if (name === 'managedFields') return []
    if (name === 'annotations' && isObject(inner)) return [[name, redactAnnotations(inner, known)]]
    if (namesOnly.includes(name) && isObject(inner)) return [[name, mapValues(inner, () => removed)]]
    if ((name === 'env' || name.endsWith('Env')) && isObject(inner))
      return [[name, mapValues(inner, (each, variable) => redactVariableValue(variable, each))]]
    if (name === 'env' && Array.isArray(inner)) return [[name, inner.map(redactVariable)]]
    if (isSensitive(name) && (typeof inner === 'string' || typeof inner === 'number'))
      return [[name, removed]]
    return [[name, redactObject(inner, known)]]
  })
  return Object.fromEntries(entries)
}

const namesOnly = ['data', 'stringData', 'binaryData']

function redactAnnotations(annotations: Readonly<Record<string, unknown>>, known: readonly string[]) {
  return mapValues(annotations, (value, name) =>
    ownAnnotation.test(name) && !isSensitive(name) ? redactObject(value, known) : removed,
  )
}

function redactVariable(variable: unknown): unknown {
  if (!isObject(variable)) return removed
  const { name, value, valueFrom } = variable
  if (value === undefined) return { name, ...(valueFrom !== undefined && { valueFrom }) }
  return { name, value: redactVariableValue(`${name}`, value) }
}

function redactVariableValue(name: string, value: unknown): unknown {
  return !isSensitive(name) && plainValue.test(`${value}`) ? value : removed
}

function mapValues(
  object: Readonly<Record<string, unknown>>,
  change: (value: unknown, name: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value, name)]))
}
