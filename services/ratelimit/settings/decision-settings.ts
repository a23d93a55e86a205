import { boolean, decimal, type Kind, settingsTable } from '@tollway/chassis/settings.ts'

const headerName: Kind<string> = {
  allowed: 'a name of a header, such as RateLimit-Limit',
  parse: value => (/^[!#$%&'*+.^`|~\w-]+$/.test(value) ? value : undefined),
}

/** How calls are decided, and what their answers tell. */
export const decisionSettings = settingsTable({
  nearLimitRatio: {
    name: 'NEAR_LIMIT_RATIO',
    kind: decimal(0, 1),
    fallback: '0.8',
    help: 'Hits above this share of a limit count as near.',
  },
  shadowMode: {
    name: 'SHADOW_MODE',
    kind: boolean,
    fallback: 'false',
    help: 'The overall answer is always OK; what it would have been is counted.',
  },
  quotaMode: {
    name: 'QUOTA_MODE',
    kind: boolean,
    fallback: 'false',
    help: 'Every limit counts as a quota: over only when all are.',
  },
  responseHeaders: {
    name: 'LIMIT_RESPONSE_HEADERS_ENABLED',
    kind: boolean,
    fallback: 'false',
    help: 'Each answer tells the proxy headers with the limit, what remains and the seconds to the reset.',
  },
  limitHeader: {
    name: 'LIMIT_LIMIT_HEADER',
    kind: headerName,
    fallback: 'RateLimit-Limit',
    help: 'The name of the header with the limit.',
  },
  remainingHeader: {
    name: 'LIMIT_REMAINING_HEADER',
    kind: headerName,
    fallback: 'RateLimit-Remaining',
    help: 'The name of the header with what remains.',
  },
  resetHeader: {
    name: 'LIMIT_RESET_HEADER',
    kind: headerName,
    fallback: 'RateLimit-Reset',
    help: 'The name of the header with the seconds to the reset.',
  },
  dynamicMetadata: {
    name: 'RESPONSE_DYNAMIC_METADATA',
    kind: boolean,
    fallback: 'false',
    help: 'Each answer tells the proxy of its request, and the metadata of the rules that let it through.',
  },
})
