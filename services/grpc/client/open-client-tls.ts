import { getCACertificates } from 'node:tls'
import { checkSubjectAltName, type TlsFile, TlsFiles } from '@tollway/chassis/net/tls.ts'
import type { ClientTls } from './client-tls.ts'

/** The TLS of a client, from files that are watched until `close`. */
export interface WatchedClientTls extends ClientTls {
  /**
   * The problems of the files before the first valid ones (`mayComeLater`). Until then, no connection is
   * possible.
   */
  missing(): string
  close(): void
}

interface ClientTlsOptions {
  /** The paths of `cert` and `key` are both empty, or neither is. */
  readonly cert: TlsFile
  readonly key: TlsFile
  /** An empty path means the authorities of the system. */
  readonly ca: TlsFile
  /** The name or IP address that the certificate of the server must have. */
  readonly serverName: string
  /** Called once for each change that makes the files invalid; the previous ones stay in use. */
  onReloadFailed(reason: string): void
  /** If true, files that do not exist at the start are awaited. */
  readonly mayComeLater?: boolean
}

/**
 * Opens the TLS of a client. Changed files apply to later connections. Of the names in a certificate, only
 * subject alternative names count.
 *
 * @throws Error that names every setting with an invalid file, and its problem
 */
export function openClientTls(options: ClientTlsOptions): WatchedClientTls {
  const { serverName, ...filesOptions } = options
  const files = new TlsFiles(filesOptions)
  const systemCa = options.ca.path === '' ? getCACertificates('default').join('\n') : ''
  return {
    serverName,
    credentials() {
      const { identity, ca = systemCa } = files.credentials()
      return { ca, identity }
    },
    verifyServer: certificate => checkSubjectAltName(certificate, serverName),
    onChange: files.onChange,
    missing: files.missing,
    close: files.close,
  }
}
