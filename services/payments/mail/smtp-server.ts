import type { SettingKind } from '@tollway/chassis/settings.ts'

export interface SmtpServer {
  readonly host: string
  readonly port: number
  /** Whether the connection uses TLS from the start. If not, STARTTLS is used if the server offers it. */
  readonly tls: boolean
  /** The credentials; null for none. They and the mail are sent only over an encrypted connection. */
  readonly login: { readonly user: string; readonly password: string } | null
}

const ports: Readonly<Record<string, number>> = { 'smtp:': 587, 'smtps:': 465 }

/** User and password are in percent encoding. */
export const smtpServer: SettingKind<SmtpServer | null> = {
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
