/** Stands in place of what was removed. */
export const removed = '(removed)'

const sensitive =
  'pass(?:word|wd|phrase)?|secret|token|authori[sz]ation|credential|api[_-]?key|private[_-]?key|salt|cookie|dsn|' +
  'redis[_-]?auth'
const sensitiveName = new RegExp(sensitive, 'i')

/** Whether the value of a field, a setting or a header of this name may be a secret. */
export function isSensitive(name: string): boolean {
  return sensitiveName.test(name) && !/(?:Name|Ref|Refs)$/.test(name)
}

/** A quoted value ends at the next quote that has as many backslashes before it as the first one. */
const quoted = String.raw`(?<escape>\\*)"[^\n]{0,4000}?(?<!\\)\k<escape>"|'[^'\n]{0,4000}'`
const unclosed = String.raw`\\*["'][^\n]{1,4000}`
const separator = String.raw`(?:\\*["'])?\s{0,20}[:=]\s{0,20}`
const plain = String.raw`[^\s,;{}[\]"'\\]+`

/**
 * The end of the name, the separator and the value with its quotes. The expressions have no unbounded
 * repetition before the part that decides, so that long lines take linear time.
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
/** 13 to 19 digits, such as those of a card; numbers that begin with 1 are times. */
const cardNumber = /\b[2-6](?:[ -]?\d){12,18}\b/g
const harmless = /^(?:true|false|null|-?\d+(?:\.\d+)?)$/

/**
 * Removes secrets from a text: user info of URLs, credentials of headers, tokens, private keys, card numbers,
 * values of sensitive names, and values that are known to be secrets.
 *
 * @param known longer ones first
 */
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
