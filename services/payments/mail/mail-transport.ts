/** A whole message on its way out. */
export interface ComposedMail {
  /** Of its row: the same however often it is sent. */
  readonly id: string
  readonly createdMs: number
  /** The addresses of the envelope (RFC 5321), without names. */
  readonly from: string
  readonly to: string
  /** Header and body as RFC 5322 has them, with CRLF. */
  readonly bytes: Uint8Array
}

/** Where mail goes. */
export interface MailTransport {
  /**
   * Resolves when another server has accepted responsibility for the mail, within `sendDeadlineMs`.
   *
   * @throws MailError
   */
  send(mail: ComposedMail): Promise<void>
}

/** The longest that one send may take, from the connection to the answer. */
export const sendDeadlineMs = 60_000

/** A mail was not taken, as far as is known. The message holds no secret. */
export class MailError extends Error {
  override readonly name = 'MailError'
  /** The answer is that this mail will never be taken (a reply of 500 and more, RFC 5321, section 4.2.1). */
  readonly permanent: boolean

  constructor(message: string, permanent: boolean, options: ErrorOptions = {}) {
    super(message, options)
    this.permanent = permanent
  }
}
