import type { Kind } from '@tollway/chassis/settings.ts'

/** The sender of a mail. */
export interface Mailbox {
  /** Empty for none. */
  readonly name: string
  readonly address: string
}

const maxAddressCharacters = 254
const maxNameCharacters = 100
/** A form without quotes, comments, lists or anything else that a header or a command could be cut at. */
const addressPattern = /^[\w.!#$%&'*+/=?^{|}~-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i

/** Whether text is one plain address. Everything else is refused before it comes near a server. */
export function isPlainAddress(text: string): boolean {
  return text.length <= maxAddressCharacters && addressPattern.test(text)
}

/** `pay@example.com` or `Name <pay@example.com>`. */
export const mailbox: Kind<Mailbox> = {
  allowed: 'an address such as pay@example.com, or Name <pay@example.com>',
  parse: value => {
    const [, name = '', inner] = /^([^<>\p{Cc}]*)<([^<>]*)>$/u.exec(value) ?? []
    const address = inner ?? value
    if (!isPlainAddress(address) || name.length > maxNameCharacters) return undefined
    return { name: name.trim().replace(/^"(.*)"$/, '$1'), address }
  },
}

/** Returns the domain of a mail's Message-ID. */
export function domainOf({ address }: Mailbox): string {
  return address.slice(address.lastIndexOf('@') + 1)
}
