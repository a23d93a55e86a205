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
