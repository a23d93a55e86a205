/**
 * The bits of an address or of a network: `4` or `6` for its family, followed by a `0` or `1` for each bit. A
 * network has the bits of its prefix only, so that it contains the addresses whose bits begin with its own.
 */
export type Bits = string

export const ipv4Bits = 32
export const ipv6Bits = 128

const [zero, nine, dot, colon] = [0x30, 0x39, 0x2e, 0x3a]
/** `::ffff:255.255.255.255` with leading zeros in all groups. */
const maxLength = 45

/**
 * Returns the bits of an IPv4 or IPv6 address, or undefined for any other text. An IPv4-mapped IPv6 address is
 * the IPv4 address. An address with leading zeros in a decimal number, a zone, a port or brackets is none.
 */
export function parseAddress(text: string): Bits | undefined {
  if (text.length > maxLength) return undefined
  if (!text.includes(':')) {
    const bits = parseIpv4(text, 0)
    return bits === undefined ? undefined : `4${bits}`
  }
  const bits = parseIpv6(text)
  if (bits === undefined) return undefined
  return bits.startsWith(mappedPrefix) ? `4${bits.slice(mappedPrefix.length)}` : `6${bits}`
}

const mappedPrefix = '0'.repeat(80) + '1'.repeat(16)
const octets = Array.from({ length: 256 }, (_, octet) => octet.toString(2).padStart(8, '0'))

function parseIpv4(text: string, from: number): string | undefined {
  let bits = ''
  let count = 0
  let octet = -1
  for (let at = from; at <= text.length; at++) {
    const unit = at === text.length ? dot : text.charCodeAt(at)
    if (unit === dot) {
      if (octet < 0 || count === 4) return undefined
      bits += octets[octet]
      count += 1
      octet = -1
    } else {
      if (unit < zero || unit > nine || octet === 0) return undefined
      octet = Math.max(0, octet) * 10 + unit - zero
      if (octet > 255) return undefined
    }
  }
  return count === 4 ? bits : undefined
}

/** Calls are not concurrent, so that all of them can use one list of groups. */
const groups = new Uint16Array(8)

function parseIpv6(text: string): string | undefined {
  let count = 0
  /** The number of groups before `::`. */
  let before = -1
  let at = 0
  if (text.charCodeAt(0) === colon) {
    if (text.charCodeAt(1) !== colon) return undefined
    before = 0
    at = 2
  }
  let last = ''
  while (at < text.length) {
    const start = at
    let group = 0
    let digit = readHexDigit(text, at)
    while (digit >= 0) {
      group = group * 16 + digit
      at += 1
      digit = at - start < 5 ? readHexDigit(text, at) : -1
    }
    if (text.charCodeAt(at) === dot) {
      const ipv4 = count <= 6 ? parseIpv4(text, start) : undefined
      if (ipv4 === undefined) return undefined
      last = ipv4
      break
    }
    if (at === start || at - start > 4 || count === 8) return undefined
    groups[count] = group
    count += 1
    if (at === text.length) break
    if (text.charCodeAt(at) !== colon || at + 1 === text.length) return undefined
    at += 1
    if (text.charCodeAt(at) === colon) {
      if (before >= 0) return undefined
      before = count
      at += 1
    }
  }
  const missing = 8 - count - last.length / 16
  if (before < 0 ? missing !== 0 : missing < 1) return undefined
  let bits = ''
  for (let index = 0; index < count; index++) {
    if (index === before) bits += '0'.repeat(16 * missing)
    const group = groups[index] ?? 0
    bits += octets[group >>> 8] ?? ''
    bits += octets[group & 255] ?? ''
  }
  return `${before === count ? bits + '0'.repeat(16 * missing) : bits}${last}`
}

/** Returns the value of a hexadecimal digit, or -1 for any other unit. */
function readHexDigit(text: string, at: number): number {
  const unit = text.charCodeAt(at)
  if (unit >= zero && unit <= nine) return unit - zero
  const letter = (unit | 0x20) - 0x61
  return letter >= 0 && letter < 6 ? letter + 10 : -1
}

/** What a network looks like, for messages. */
export const networkForm = 'an address with a prefix length, such as 10.0.0.0/8 or 2001:db8::/32'

/**
 * Returns the bits of a network such as `10.0.0.0/8`, or why the text is none. An address without a prefix
 * length is a network of one address. A network of IPv4-mapped addresses is the IPv4 network.
 */
export function parseNetwork(
  text: string,
): { readonly bits: Bits } | { readonly problem: string; readonly allowed: string } {
  const [address = '', length, ...more] = text.split('/')
  const bits = parseAddress(address)
  if (bits === undefined || more.length > 0) {
    return { problem: `'${text}' is not a network`, allowed: networkForm }
  }
  const isMapped = bits.startsWith('4') && address.includes(':')
  const most = address.includes(':') ? ipv6Bits : ipv4Bits
  if (length !== undefined && !(/^(?:0|[1-9]\d{0,2})$/.test(length) && Number(length) <= most)) {
    return { problem: `'${text}' has no valid prefix length`, allowed: `a number from 0 to ${most}` }
  }
  const prefix = Number(length ?? most) - (isMapped ? ipv6Bits - ipv4Bits : 0)
  if (prefix < 0) {
    const problem = `'${text}' contains more than the IPv4-mapped addresses`
    return { problem, allowed: 'a prefix length of at least 96 for IPv4-mapped addresses' }
  }
  const network = bits.slice(0, 1 + prefix)
  if (!bits.includes('1', 1 + prefix)) return { bits: network }
  const problem = `'${text}' has bits of an address after its prefix`
  return { problem, allowed: formatNetwork(network) }
}

/** Returns a network in its canonical form, such as `10.0.0.0/8` or `2001:db8::/32`. */
export function formatNetwork(network: Bits): string {
  const isIpv4 = network.startsWith('4')
  const prefix = network.length - 1
  // Numbers after the prefix are 0, and not worth the time to read their bits.
  const readNumber = (index: number, size: number) =>
    index * size < prefix
      ? Number.parseInt(network.slice(1 + index * size, 1 + (index + 1) * size).padEnd(size, '0'), 2)
      : 0
  if (isIpv4) return `${[0, 1, 2, 3].map(index => readNumber(index, 8)).join('.')}/${prefix}`
  const words = [0, 1, 2, 3, 4, 5, 6, 7].map(index => readNumber(index, 16).toString(16))
  return `${compressZeros(words)}/${prefix}`
}

/** Joins the groups of an IPv6 address; the first longest run of at least two zeros becomes `::`. */
function compressZeros(words: readonly string[]): string {
  let [start, length] = [0, 1]
  for (let from = 0; from < words.length; from++) {
    let end = from
    while (words[end] === '0') end += 1
    if (end - from > length) [start, length] = [from, end - from]
  }
  if (length < 2) return words.join(':')
  return `${words.slice(0, start).join(':')}::${words.slice(start + length).join(':')}`
}

/** Returns the network of an address with these prefix lengths; a text that is no address stays as it is. */
export function toNetwork(text: string, ipv4Prefix: number, ipv6Prefix: number): string {
  const bits = parseAddress(text)
  if (bits === undefined) return text
  return formatNetwork(bits.slice(0, 1 + (bits.startsWith('4') ? ipv4Prefix : ipv6Prefix)))
}
