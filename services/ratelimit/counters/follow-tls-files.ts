import type { Log } from '@tollway/chassis/log.ts'
import { openTlsFiles } from '@tollway/chassis/tls.ts'
import type { TlsOptions } from './connect-socket.ts'

export interface TlsFileSettings {
  /** What the names of the settings begin with: `KVSTORE_TLS_`. */
  readonly prefix: string
  readonly certFile: string
  readonly keyFile: string
  readonly caFile: string
  readonly skipHostnameVerification: boolean
}

/**
 * TLS to a backend by the files that the settings name. They are read anew when they change, for as long as the
 * process runs; a new connection then has the new ones.
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
