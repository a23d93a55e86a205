import { trustedBy } from './certificate-state.ts'
import { type Identity, issueAuthority, issueLeaf } from './issue.ts'
import type { Action, CertificateTiming } from './plan.ts'
import {
  authorityContent,
  type LeafSpec,
  leafContent,
  type SecretContents,
  toIssuer,
} from './secret-content.ts'
import type { SecretData } from './secret-store.ts'

export interface WriteOptions {
  readonly leafSpecs: Readonly<Record<'server' | 'client', LeafSpec>>
  readonly nowMs: number
  readonly timing: CertificateTiming
}

/** The begin of the names of the operator's authorities. */
const authorityName = 'tollway feed'

/**
 * Returns the Secret that an action writes, and its new content. Only this function creates keys.
 *
 * @param contents the present contents of the Secrets, from which a kept leaf is taken
 */
export function writeAction(
  action: Exclude<Action, { readonly kind: 'wait' }>,
  contents: SecretContents,
  { leafSpecs, nowMs, timing }: WriteOptions,
): { readonly secret: keyof SecretContents; readonly data: SecretData } {
  const newIssuer = () =>
    toIssuer(issueAuthority(authorityName, { nowMs, expiresAtMs: nowMs + timing.authorityLifeMs }))
  if (action.kind === 'write-authority') {
    const issuing = action.issuing === 'new' ? newIssuer() : action.issuing
    const next = action.next === 'new' ? newIssuer() : action.next
    return { secret: 'authority', data: authorityContent({ issuing, next, old: action.old }) }
  }
  const { name, authority, certificate, expiresAtMs, trustedSinceMs } = action
  const { pem, key = '' } = authority.issuing
  const kept: Identity = {
    cert: contents[name]?.['tls.crt'] ?? '',
    key: contents[name]?.['tls.key'] ?? '',
  }
  const identity =
    certificate === 'keep' ? kept : issueLeaf({ cert: pem, key }, { ...leafSpecs[name], nowMs, expiresAtMs })
  return { secret: name, data: leafContent(identity, trustedBy(authority), trustedSinceMs) }
}
