import { getCACertificates } from 'node:tls'
import { checkSubjectAltName, openTlsFiles, type TlsFile } from '@tollway/chassis/net/tls.ts'
import type { ClientTls } from './client-tls.ts'

/** TLS as a client, with files that are watched until it is closed. */
export interface WatchedClientTls extends ClientTls {
  /**
   * Returns the files that are waited for; empty when there are credentials. No connection is possible
   * before.
   */
  missing(): string
  close(): void
}

interface ClientTlsOptions {
  /** Each path is empty if its setting is unset. */
  readonly cert: TlsFile
  readonly key: TlsFile
  /** The authorities of the server. Those of the system apply without a path. */
  readonly ca: TlsFile
  /** The DNS name or the IP address that the certificate of the server must have. */
  readonly serverName: string
  /** Called with the reason why changed files are not used. */
  onReloadFailed(reason: string): void
  /** Missing files are waited for; without it they are an error. */
  readonly mayComeLater?: boolean
}

/**
 * Opens the files. Renewed files are used by the next connection. Only subject alternative names of the
 * server count.
 *
 * @throws Error that names every setting with an invalid file, and its problem
 */
export function openClientTls(options: ClientTlsOptions): WatchedClientTls {
  const { serverName, ...filesOptions } = options
  const files = openTlsFiles(filesOptions)
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
