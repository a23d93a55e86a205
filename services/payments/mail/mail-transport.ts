import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { SettingKind } from '@tollway/chassis/settings.ts'
export interface ComposedMail {
  /** The id of the stored mail, which is the same for each attempt. */
  readonly id: string
  readonly createdMs: number
  /** The sender's address in the envelope (RFC 5321), without a name; `to` is the recipient's. */
  readonly from: string
  readonly to: string
  /** The header and the body in the format of RFC 5322, with CRLF at the end of lines. */
  readonly bytes: Uint8Array
}

export interface MailTransport {
  /**
   * Resolves when the server has accepted the mail, or the file is written. Settles within `sendDeadlineMs`.
   *
   * @throws MailError
   */
  send(mail: ComposedMail): Promise<void>
}

/** The maximum time to send one mail, from the connection to the answer. */
export const sendDeadlineMs = 60_000

/**
 * The error of an attempt to send a mail, which the server may have accepted nevertheless. The message
 * contains no secret.
 */
export class MailError extends Error {
  override readonly name = 'MailError'
  /** Whether the server rejected the mail with a reply code from 500 (RFC 5321, section 4.2.1). */
  readonly permanent: boolean

  constructor(message: string, permanent: boolean, options: ErrorOptions = {}) {
    super(message, options)
    this.permanent = permanent
  }
}

/**
 * Writes each mail atomically to a file `<time>-<id>.eml`, for installations without a mail server. A mail
 * that is sent again replaces its earlier file.
 *
 * @param folder created if it is missing, accessible only to its owner
 */
export function createFolderTransport(folder: string): MailTransport {
  return {
    async send({ id, createdMs, bytes }) {
      const time = new Date(createdMs).toISOString().replaceAll(':', '-')
      const path = join(folder, `${time}-${id}.eml`)
      // Contains the process id, because two processes can write the same mail at the same time.
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

export interface Mailbox {
  /** The display name; empty for none. */
  readonly name: string
  readonly address: string
}

const maxAddressCharacters = 254
const maxNameCharacters = 100
/** Allows no quotes, comments, lists and spaces, with which text could add to a header or a command. */
const addressPattern = /^[\w.!#$%&'*+/=?^{|}~-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i

/** Reports whether text is a plain address. Other texts are never sent to a mail server. */
export function isPlainAddress(text: string): boolean {
  return text.length <= maxAddressCharacters && addressPattern.test(text)
}

export const mailbox: SettingKind<Mailbox> = {
  allowed: 'an address such as pay@example.com, or Name <pay@example.com>',
  parse: value => {
    const [, name = '', inner] = /^([^<>\p{Cc}]*)<([^<>]*)>$/u.exec(value) ?? []
    const address = inner ?? value
    if (!isPlainAddress(address) || name.length > maxNameCharacters) return undefined
    return { name: name.trim().replace(/^"(.*)"$/, '$1'), address }
  },
}

export function parseDomain({ address }: Mailbox): string {
  return address.slice(address.lastIndexOf('@') + 1)
}
