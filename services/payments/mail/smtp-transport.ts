import { Socket } from 'node:net'
import { createTransport, type NodemailerError } from 'nodemailer'
import { type ComposedMail, MailError, type MailTransport, sendDeadlineMs } from './mail-transport.ts'
import type { SmtpServer } from './smtp-server.ts'

export interface SmtpOptions {
  /** The maximum wait for the connection, for the greeting and for each answer. */
  readonly stepTimeoutMs?: number
  readonly deadlineMs?: number
}

const defaultStepTimeoutMs = 20_000

/** Opens a connection for each mail, because one that is kept open may break unnoticed. */
export function createSmtpTransport(server: SmtpServer, options: SmtpOptions = {}): MailTransport {
  const { stepTimeoutMs = defaultStepTimeoutMs, deadlineMs = sendDeadlineMs } = options
  return {
    async send(mail) {
      const socket = new Socket()
      // Limits the whole send, because a slow server can answer each step just within `stepTimeoutMs`.
      const deadline = setTimeout(
        () => socket.destroy(new Error(`not sent within ${deadlineMs} ms`)),
        deadlineMs,
      )
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
    // Without these options, an attacker who removes STARTTLS or AUTH from the server's answers would get the
    // password or the mail unencrypted.
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

/**
 * Converts an error of nodemailer. Only a rejection of the addresses or of the message can be permanent,
 * since a rejected login or greeting says nothing about the mail.
 */
function toMailError(error: NodemailerError): MailError {
  const aboutMail = error.code === 'EENVELOPE' || error.code === 'EMESSAGE'
  const permanent = aboutMail && (error.responseCode ?? 0) >= 500
  return new MailError(error.message.slice(0, maxMessageCharacters), permanent, { cause: error })
}
