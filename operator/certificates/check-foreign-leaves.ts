import { X509Certificate } from 'node:crypto'
import { type LeafName, leafNames } from './certificate-state.ts'
import { purposes } from './issue.ts'
import { type LeafSpec, readCredentials, type SecretContents } from './secret-content.ts'

export interface ForeignLeaves {
  readonly leafSpecs: Readonly<Record<LeafName, LeafSpec>>
  readonly secretNames: Readonly<Record<LeafName, string>>
  readonly nowMs: number
}

/**
 * Returns the problems of leaves that another program issues, as cert-manager does, each with the name of its
 * Secret. Problems never quote the content.
 */
export function checkForeignLeaves(
  contents: Pick<SecretContents, LeafName>,
  { leafSpecs, secretNames, nowMs }: ForeignLeaves,
): readonly string[] {
  return leafNames.flatMap(name => {
    const problem = problemOf(contents[name], leafSpecs[name], nowMs)
    return problem === undefined ? [] : [`${secretNames[name]}: ${problem}`]
  })
}

const entries = ['tls.crt', 'tls.key', 'ca.crt'] as const

function problemOf(
  data: SecretContents[LeafName],
  { dnsNames, usage }: LeafSpec,
  nowMs: number,
): string | undefined {
  if (data === undefined) return 'does not exist; its issuer has not created it yet'
  const missing = entries.filter(entry => (data[entry] ?? '') === '')
  if (missing.length > 0)
    return `has no ${missing.join(', ')}; use an issuer that writes ${entries.join(', ')}`
  const credentials = readCredentials(data)
  if (credentials === undefined) return `${entries.join(', ')} are not a certificate with its key in PEM`
  const certificate = new X509Certificate(credentials.cert)
  if (certificate.validToDate.getTime() <= nowMs) return `tls.crt expired at ${certificate.validTo}`
  const name = dnsNames.find(wanted => certificate.checkHost(wanted) === undefined)
  if (name !== undefined) return `tls.crt is for ${certificate.subjectAltName}, and must be for DNS:${name}`
  const kind = usage.find(wanted => !certificate.keyUsage?.includes(purposes[wanted]))
  return kind && `tls.crt has not the usage "${kind} auth"`
}
