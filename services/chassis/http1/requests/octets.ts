export const tab = 0x09
export const lineFeed = 0x0a
export const carriageReturn = 0x0d
export const space = 0x20
export const colon = 0x3a
export const semicolon = 0x3b

/** 1 for each octet in the class, 0 for others. */
export type OctetClass = Uint8Array

/** `token` of RFC 9110, 5.6.2: methods and the names of fields. */
export const tokenOctets = octetClass(octet => /[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(octet)))

/** The octets of a field's value (RFC 9110, 5.5): visible octets, those beyond ASCII, space and tab. */
export const textOctets = octetClass(
  octet => octet === tab || (octet >= space && octet !== 0x7f && octet <= 0xff),
)

/** The octets of a request's target: visible ASCII. */
export const targetOctets = octetClass(octet => octet > space && octet < 0x7f)

export const hexOctets = octetClass(octet => /[0-9A-Fa-f]/.test(String.fromCharCode(octet)))

function octetClass(has: (octet: number) => boolean): OctetClass {
  return Uint8Array.from({ length: 256 }, (_, octet) => (has(octet) ? 1 : 0))
}

/** Returns the index after the octets of the class that begin at `from`; at most `end`. */
export function skip(octets: OctetClass, bytes: Buffer, from: number, end: number): number {
  let at = from
  while (at < end && octets[bytes[at] ?? 0] === 1) at += 1
  return at
}

/** Returns whether the field's name at this index is `name`, which is in lower case. */
export function isFieldName(bytes: Buffer, at: number, name: string): boolean {
  if (bytes[at + name.length] !== colon) return false
  for (let index = 0; index < name.length; index += 1) {
    const octet = bytes[at + index] ?? 0
    const lower = octet >= 0x41 && octet <= 0x5a ? octet + 0x20 : octet
    if (lower !== name.charCodeAt(index)) return false
  }
  return true
}

/** Returns the value of a field between the colon and the line's end, without surrounding white space. */
export function fieldValue(bytes: Buffer, from: number, to: number): string {
  let start = from
  let end = to
  while (start < end && isBlank(bytes[start])) start += 1
  while (end > start && isBlank(bytes[end - 1])) end -= 1
  return bytes.toString('latin1', start, end)
}

const isBlank = (octet: number | undefined) => octet === space || octet === tab
