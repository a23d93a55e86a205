import { getCACertificates } from 'node:tls'
import { checkSubjectAltName, type TlsFile, TlsFiles } from '@tollway/chassis/net/tls.ts'
import type { ClientTls } from './client-tls.ts'

/** The TLS of a client, from files that are watched until `close`. */
export interface WatchedClientTls extends ClientTls {
  /**
   * Returns the problems of the files before the first valid ones (`mayComeLater`); empty when there are
   * credentials. Until then, no connection is possible.
   */
  missing(): string
  close(): void
}

interface ClientTlsOptions {
  /** The certificate of this client and its key. Both paths are empty, or neither. */
  readonly cert: TlsFile
  readonly key: TlsFile
  /** The certificate authorities of the server. If the path is empty, those of the system apply. */
  readonly ca: TlsFile
  /** The DNS name or the IP address that the certificate of the server must have. */
  readonly serverName: string
  /**
   * Called once for each change that makes the files invalid, with the reason. The previous files stay in
   * use.
   */
  onReloadFailed(reason: string): void
  /** If true, files that do not exist at the start are awaited. Otherwise a missing file is an error. */
  readonly mayComeLater?: boolean
}

/**
 * Opens the files of a client's TLS. Changed files apply to later connections. Of the names in the server's
 * certificate only subject alternative names count.
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
