import { rateLimitConfigKind as definition } from '@tollway/crds/rate-limit-config.ts'
import type { RateLimitDomain } from '../ir.ts'
import { countLimits, translateRateLimitConfig } from '../translate/translate-rate-limit-config.ts'
import {
  encodeRateLimitDomain,
  rateLimitTypeUrl,
  showRateLimitConfig,
} from '../xds/encode-rate-limit-domain.ts'
import { openDomainClaims, type Reservations } from './claim-domains.ts'
import type { FedKind, KindColumns } from './fed-kind.ts'
import { isRateLimitDomain } from './is-rate-limit-domain.ts'

export const rateLimitConfigColumns: KindColumns = {
  subject: 'DOMAIN',
  counts: [{ field: 'rules', heading: 'RULES', isLoad: false }],
}

/** @param reservations domains that only some namespaces may have. */
export function rateLimitConfigs(reservations?: Reservations): FedKind<RateLimitDomain, RateLimitDomain> {
  return {
    definition,
    workload: 'ratelimit',
    typeUrl: rateLimitTypeUrl,
    ...rateLimitConfigColumns,
    translate: translateRateLimitConfig,
    isContent: isRateLimitDomain,
    subjectOf: (content, spec) => content?.domain ?? domainOf(spec),
    openClaims: () => openDomainClaims(reservations),
    complete: domain => ({ fed: domain }),
    encode: encodeRateLimitDomain,
    show: showRateLimitConfig,
    countsOf: domain => ({ rules: domain ? countLimits(domain.descriptors) : 0 }),
  }
}

const maxShownCharacters = 253

function domainOf(spec: unknown): string {
  const domain = (spec as { domain?: unknown } | null | undefined)?.domain
  return typeof domain === 'string' ? domain.slice(0, maxShownCharacters) : ''
}
