/** Longer values are neither a range nor an expression that a person wrote. */
const maxCharacters = 256

/**
 * Returns why a value probably does not match what its author means, with the way to write it; undefined for
 * any other value. A value is compared as text, with case, and only `*` is special in it.
 */
export function describeUnlikelyValue(key: string, value: string): string | undefined {
  if (value.length > maxCharacters) return undefined
  return describeRange(key, value) ?? describePattern(value) ?? describeScheme(value)
}

const ipv4Range = /^((?:\d{1,3}\.){3}\d{1,3})\/(\d|[12]\d|3[0-2])$/
const ipv6Range = /^(?=[^/]*::|(?:[^:/]*:){7})[\da-f:]+(?:\.\d+){0,3}\/(?:\d{1,2}|1[01]\d|12[0-8])$/i

/** Envoy's masked_remote_address sends ranges, so that the text of a range can match there. */
function describeRange(key: string, value: string): string | undefined {
  const [, address, length] = ipv4Range.exec(value) ?? []
  if ((address === undefined && !ipv6Range.test(value)) || /masked/i.test(key)) return undefined
  const octets = Number(length) / 8
  const isWhole = address !== undefined && Number.isInteger(octets) && octets >= 1 && octets <= 3
  const wildcard = isWhole
    ? `write ${address.split('.').slice(0, octets).join('.')}.* for these addresses, or `
    : ''
  return (
    `${shown(value)} matches only this text, not the addresses of the range; ${wildcard}let Envoy send the ` +
    'range: the action masked_remote_address, whose key and value are masked_remote_address and the range'
  )
}

/** What no text but a regular expression has. A `*` after a name, such as `api.*`, may be meant. */
const signsOfPattern = [
  /^\^[\w/.\\([]/, // ^/api
  /\\(?:[dDwWsS][+*?{]|[./+*?()[\]])/, // \d+ and \.
  /\[\^?\w-\w/, // [0-9]
  /\[[^[\]]{1,32}\](?:[+*?]|\{\d)/, // [^/]+
  /\([^()|]{1,64}\|/, // (a|b)
  /\(\?[:=!<]/, // (?:a)
  /(?:^|\/)\.[*+](?:$|[/$?])/, // /api/.*
]

function describePattern(value: string): string | undefined {
  if (!signsOfPattern.some(sign => sign.test(value))) return undefined
  const written = toWildcard(value)
  const advice = written === undefined ? '' : `; write ${shown(written)}, in which each * matches any text`
  return `${shown(value)} is compared as text, not as a regular expression${advice}`
}

/** Returns the wildcard that matches what the expression matches, and perhaps more. */
function toWildcard(expression: string): string | undefined {
  const isOpen = expression.startsWith('^') && !expression.endsWith('$')
  const text = expression
    .replace(/^\^|\$$/g, '')
    .replace(
      /\[[^\]]+\](?:[+*?]|\{[\d,]+\})?|\\[dDwWsS](?:[+*?]|\{[\d,]+\})?|\.[+*]\??|\((?:[^()])*\)[+*?]?/g,
      '*',
    )
    .replace(/\\([^\w])/g, '$1')
  const wildcard = `${text}${isOpen ? '*' : ''}`.replace(/\*+/g, '*')
  return /[\\^$+?()[\]{}|]/.test(wildcard) || wildcard === '*' ? undefined : wildcard
}

const schemes = ['Bearer', 'Basic', 'Digest']

function describeScheme(value: string): string | undefined {
  const written = /^([a-z]+)[ *]/i.exec(value)?.[1]
  const usual = schemes.find(scheme => scheme.toLowerCase() === written?.toLowerCase())
  if (usual === undefined || usual === written) return undefined
  return (
    `${shown(value)} does not match "${usual} …", which clients usually send: case matters; ` +
    `write ${shown(usual + value.slice(usual.length))}, and a rule for each other spelling that clients send`
  )
}

const shown = (value: string) => `"${value}"`
