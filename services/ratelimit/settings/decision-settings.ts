import { boolean, decimal, oneOf, type SettingKind, settingsTable } from '@tollway/chassis/settings.ts'

const headerName: SettingKind<string> = {
  allowed: 'the name of a header, such as RateLimit-Limit',
  parse: value => (/^[!#$%&'*+.^`|~\w-]+$/.test(value) ? value : undefined),
}

export const decisionSettings = settingsTable({
  nearLimitRatio: {
    name: 'NEAR_LIMIT_RATIO',
    kind: decimal(0, 1),
    fallback: '0.8',
    help: 'The share of a limit above which hits are counted as near the limit.',
  },
  shadowMode: {
    name: 'SHADOW_MODE',
    kind: boolean,
    fallback: 'false',
    help: 'The overall answer is always OK. Calls over a limit are counted.',
  },
  quotaMode: {
    name: 'QUOTA_MODE',
    kind: boolean,
    fallback: 'false',
    help: 'Every limit is a quota: a call is over its limit only if all matched limits are.',
  },
  responseHeaders: {
    name: 'LIMIT_RESPONSE_HEADERS_ENABLED',
    kind: boolean,
    fallback: 'false',
    help: 'Add response headers with the limit, the remaining requests and the seconds to the reset.',
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
    help: 'The name of the header with the remaining requests.',
  },
  resetHeader: {
    name: 'LIMIT_RESET_HEADER',
    kind: headerName,
    fallback: 'RateLimit-Reset',
    help: 'The name of the header with the seconds to the reset.',
  },
  headerForm: {
    name: 'RESPONSE_HEADERS',
    kind: oneOf('reference', 'ietf-draft'),
    fallback: 'reference',
    help:
      'The form of response headers. reference: those of LIMIT_RESPONSE_HEADERS_ENABLED. ietf-draft: ' +
      'RateLimit-Policy and RateLimit with every limit, and Retry-After on a rejection, as in ' +
      'draft-ietf-httpapi-ratelimit-headers-11; LIMIT_RESPONSE_HEADERS_ENABLED has no effect then.',
  },
  problemDetails: {
    name: 'PROBLEM_DETAILS',
    kind: boolean,
    fallback: 'false',
    help:
      'Rejections have a body of the type application/problem+json with the names of the exceeded ' +
      'limits.',
  },
  dynamicMetadata: {
    name: 'RESPONSE_DYNAMIC_METADATA',
    kind: boolean,
    fallback: 'false',
    help: 'Add dynamic metadata to answers: the request, and the metadata of the rules that allowed it.',
  },
})
