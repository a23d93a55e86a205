import { Socket } from 'node:net'
import type { Kind } from '@tollway/chassis/settings.ts'
import { createTransport, type NodemailerError } from 'nodemailer'
import { type ComposedMail, MailError, type MailTransport, sendDeadlineMs } from './mail-transport.ts'

/** A server that takes mail. */
export interface SmtpServer {
  readonly host: string
  readonly port: number
  /** TLS from the first byte; otherwise STARTTLS where the server offers it. */
  readonly tls: boolean
  /** With it, nothing is sent before the connection is encrypted. */
  readonly login: { readonly user: string; readonly password: string } | null
}

const ports: Readonly<Record<string, number>> = { 'smtp:': 587, 'smtps:': 465 }

/** Empty, or `smtp://user:password@host:port`, `smtps://…`; a user or a password in percent encoding. */
export const smtpServer: Kind<SmtpServer | null> = {
  allowed:
    'smtp://user:password@host:port, or smtps:// for TLS from the start; user and password are optional',
  parse: value => {
    if (value === '') return null
    const url = URL.parse(value)
    const port = ports[url?.protocol ?? '']
    if (url === null || port === undefined || url.hostname === '' || /[?#]/.test(value)) return undefined
    if (url.pathname !== '' && url.pathname !== '/') return undefined
    const user = decode(url.username)
    const password = decode(url.password)
    if (user === undefined || password === undefined) return undefined
    return {
      host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: url.port === '' ? port : Number(url.port),
      tls: url.protocol === 'smtps:',
      login: user === '' ? null : { user, password },
    }
  },
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

export interface SmtpOptions {
  /** The longest wait for the connection, the greeting, and each answer. */
  readonly stepTimeoutMs?: number
  /** The longest that everything may take together. */
  readonly deadlineMs?: number
}

const defaultStepTimeoutMs = 20_000

/** One connection a mail: they are few, and a connection that was kept is the one that has died meanwhile. */
export function createSmtpTransport(server: SmtpServer, options: SmtpOptions = {}): MailTransport {
  const { stepTimeoutMs = defaultStepTimeoutMs, deadlineMs = sendDeadlineMs } = options
  return {
    async send(mail) {
      const socket = new Socket()
      // A server that trickles keeps each step alive; only the end of the connection ends such a send.
      const giveUp = setTimeout(() => socket.destroy(new Error('the deadline is over')), deadlineMs)
      try {
        await sendOver(socket, server, mail, stepTimeoutMs)
      } catch (error) {
        throw mailErrorOf(error as NodemailerError)
      } finally {
        clearTimeout(giveUp)
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
    // Without these, a password or the mail would go out in the clear when somebody strips STARTTLS or AUTH.
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

/** Only what was said of this mail can be for good: a refused login or greeting is the server's own trouble. */
function mailErrorOf(error: NodemailerError): MailError {
  const aboutMail = error.code === 'EENVELOPE' || error.code === 'EMESSAGE'
  const permanent = aboutMail && (error.responseCode ?? 0) >= 500
  return new MailError(error.message.slice(0, maxMessageCharacters), permanent, { cause: error })
}
