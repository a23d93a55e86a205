import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { SettingKind } from '@tollway/chassis/settings.ts'
/** A complete outgoing message. */
export interface ComposedMail {
  /** The id of its row. It is the same for each try. */
  readonly id: string
  readonly createdMs: number
  /** The addresses of the envelope (RFC 5321), without names. */
  readonly from: string
  readonly to: string
  /** Header and body in the format of RFC 5322, with CRLF. */
  readonly bytes: Uint8Array
}

/** A destination of mail. */
export interface MailTransport {
  /**
   * Resolves when the receiver has accepted responsibility for the mail. Settles within `sendDeadlineMs`.
   *
   * @throws MailError
   */
  send(mail: ComposedMail): Promise<void>
}

/** The longest that one send may take, from the connection to the answer. */
export const sendDeadlineMs = 60_000

/** A mail was probably not accepted. The message contains no secret. */
export class MailError extends Error {
  override readonly name = 'MailError'
  /** Whether the server will never accept this mail (a reply of 500 and more, RFC 5321, section 4.2.1). */
  readonly permanent: boolean

  constructor(message: string, permanent: boolean, options: ErrorOptions = {}) {
    super(message, options)
    this.permanent = permanent
  }
}

/**
 * Writes each mail atomically into a separate file `<time>-<id>.eml`, for installations without a mail
 * server. A mail that is sent again replaces its file.
 *
 * @param folder created if it is missing, with access for its owner only
 */
export function createFolderTransport(folder: string): MailTransport {
  return {
    async send({ id, createdMs, bytes }) {
      const time = new Date(createdMs).toISOString().replaceAll(':', '-')
      const path = join(folder, `${time}-${id}.eml`)
      // Two processes can write the same mail at the same time.
      const draft = `${path}.${process.pid}.part`
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 })
        await writeDurably(draft, bytes)
        await rename(draft, path)
      } catch (cause) {
        throw new MailError(`the mail cannot be written: ${(cause as Error).message}`, false, { cause })
      }
    },
  }
}

async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    await file.writeFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

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

/** Whether text is a plain address. Other texts never reach a mail server. */
export function isPlainAddress(text: string): boolean {
  return text.length <= maxAddressCharacters && addressPattern.test(text)
}

/** `pay@example.com` or `Name <pay@example.com>`. */
export const mailbox: SettingKind<Mailbox> = {
  allowed: 'an address such as pay@example.com, or Name <pay@example.com>',
  parse: value => {
    const [, name = '', inner] = /^([^<>\p{Cc}]*)<([^<>]*)>$/u.exec(value) ?? []
    const address = inner ?? value
    if (!isPlainAddress(address) || name.length > maxNameCharacters) return undefined
    return { name: name.trim().replace(/^"(.*)"$/, '$1'), address }
  },
}

/** Returns the domain of a mail's Message-ID. */
export function parseDomain({ address }: Mailbox): string {
  return address.slice(address.lastIndexOf('@') + 1)
}
