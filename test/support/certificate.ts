import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Certificate {
  readonly certFile: string
  readonly keyFile: string
  readonly cert: string
  readonly key: string
}

/**
 * Creates a self-signed certificate, which is its own authority. Needs openssl.
 *
 * @param name the name of the files
 * @param altNames `DNS:redis.test,IP:127.0.0.1`
 */
export async function makeCertificate(folder: string, name: string, altNames: string): Promise<Certificate> {
  const certFile = join(folder, `${name}.crt`)
  const keyFile = join(folder, `${name}.key`)
  await promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'],
    ...['-subj', `/CN=${name}`, '-addext', `subjectAltName=${altNames}`],
    ...['-keyout', keyFile, '-out', certFile],
  ])
  const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')])
  return { certFile, keyFile, cert, key }
}
