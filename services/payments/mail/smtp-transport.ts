import { Socket } from 'node:net'
import { createTransport, type NodemailerError } from 'nodemailer'
import { type ComposedMail, MailError, type MailTransport, sendDeadlineMs } from './mail-transport.ts'
import type { SmtpServer } from './smtp-server.ts'

export interface SmtpOptions {
  /** The longest wait for the connection, the greeting, and each answer. */
  readonly stepTimeoutMs?: number
  /** The longest time of the whole send. */
  readonly deadlineMs?: number
}

const defaultStepTimeoutMs = 20_000

/** Opens one connection for each mail: mails are few, and a kept connection may have broken meanwhile. */
export function createSmtpTransport(server: SmtpServer, options: SmtpOptions = {}): MailTransport {
  const { stepTimeoutMs = defaultStepTimeoutMs, deadlineMs = sendDeadlineMs } = options
  return {
    async send(mail) {
      const socket = new Socket()
      // A slow server can keep each step within its timeout; only closing the connection ends such a send.
      const deadline = setTimeout(() => socket.destroy(new Error('the deadline is over')), deadlineMs)
      try {
        await sendOver(socket, server, mail, stepTimeoutMs)
      } catch (error) {
        throw toMailError(error as NodemailerError)
      } finally {
        clearTimeout(deadline)
        socket.destroy()
      }
    },
  }
}

async function sendOver(
  socket: Socket,
  { host, port, tls, login }: SmtpServer,
  { from, to, bytes }: ComposedMail,
  stepTimeoutMs: number,
): Promise<void> {
  const transport = createTransport({
    host,
    port,
    socket,
    secure: tls,
    // Without these, an attacker that strips STARTTLS or AUTH would get the password or the mail unencrypted.
    requireTLS: login !== null && !tls,
    forceAuth: login !== null,
    ...(login === null ? {} : { auth: { user: login.user, pass: login.password } }),
    tls: { minVersion: 'TLSv1.2' },
    connectionTimeout: stepTimeoutMs,
    greetingTimeout: stepTimeoutMs,
    socketTimeout: stepTimeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  await transport.sendMail({ raw: Buffer.from(bytes), envelope: { from, to: [to] } })
}

const maxMessageCharacters = 300

/** Only errors about this mail can be permanent. A rejected login or greeting is an error of the server. */
function toMailError(error: NodemailerError): MailError {
  const aboutMail = error.code === 'EENVELOPE' || error.code === 'EMESSAGE'
  const permanent = aboutMail && (error.responseCode ?? 0) >= 500
  return new MailError(error.message.slice(0, maxMessageCharacters), permanent, { cause: error })
}
