import type { Log } from '@tollway/chassis/log/log.ts'
import { openTlsFiles } from '@tollway/chassis/net/tls.ts'
import type { TlsOptions } from './connect-socket.ts'

export interface TlsFileSettings {
  /** The prefix of the settings' names, such as `KVSTORE_TLS_`. */
  readonly prefix: string
  readonly certFile: string
  readonly keyFile: string
  readonly caFile: string
  readonly skipHostnameVerification: boolean
}

/**
 * Opens the TLS files of a backend. They are read again when they change, for as long as the process runs;
 * each new connection uses the current ones.
 *
 * @throws Error that names the setting when a file cannot be used.
 */
export function followTlsFiles(settings: TlsFileSettings, log: Log): () => TlsOptions {
  const { prefix, certFile, keyFile, caFile, skipHostnameVerification } = settings
  const files = openTlsFiles({
    cert: { setting: `${prefix}CLIENT_CERT`, path: certFile },
    key: { setting: `${prefix}CLIENT_KEY`, path: keyFile },
    ca: { setting: `${prefix}CACERT`, path: caFile },
    onWarning: text => log.warn(text),
  })
  return () => {
    const { identity, ca } = files.credentials()
    return { verifyName: !skipHostnameVerification, ...identity, ...(ca === undefined ? {} : { ca }) }
  }
}
