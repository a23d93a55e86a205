import { rateLimitConfigLimits } from '../rate-limit-config.ts'
import type { Case } from './read-cases.ts'

const { maxDescriptorLevels, maxSiblings, maxKeyLength, maxValueLength, maxDomainLength } =
  rateLimitConfigLimits
const { maxReplaces, maxMetadataFields, maxNameLength } = rateLimitConfigLimits

const smallest = { domain: 'a', descriptors: [] }

const rule = { unit: 'minute', requestsPerUnit: 3, name: 'a', replaces: [{ name: 'b' }] }
const slidingMember = { ...rule, algorithm: 'SlidingWindow' }
const bucketMember = { ...rule, algorithm: 'TokenBucket', burst: 9 }
const unboundMember = { ...rule, burst: 9 }

/**
 * RateLimitConfigs exactly at a limit and one beyond it. They are generated, because files of them would be
 * too long.
 */
export const largeCases: readonly Case[] = [
  large('every string at its limit, counted in characters', {
    domain: '🚦'.repeat(maxDomainLength),
    descriptors: [
      {
        key: '🚦'.repeat(maxKeyLength),
        value: 'é'.repeat(maxValueLength),
        rateLimit: { unlimited: true, name: '🚦'.repeat(maxNameLength) },
      },
    ],
  }),
  large(
    'every string beyond its limit',
    {
      domain: 'd'.repeat(maxDomainLength + 1),
      descriptors: [
        {
          key: '🚦'.repeat(maxKeyLength + 1),
          value: 'v'.repeat(maxValueLength + 1),
          rateLimit: { unlimited: true, name: 'n'.repeat(maxNameLength + 1) },
        },
      ],
    },
    [
      `spec.domain: "${'d'.repeat(62)}… has 254 characters; expected a string of 1 to 253 characters`,
      `spec.descriptors[0].key: "${'🚦'.repeat(31)}… has 257 characters; expected a string of 1 to 256 characters`,
      `spec.descriptors[0].value: "${'v'.repeat(62)}… has 1025 characters; expected a string of at most 1024 characters`,
      `spec.descriptors[0].rateLimit.name: "${'n'.repeat(62)}… has 129 characters; expected a string of at most 128 characters`,
    ],
  ),
  large('a regular expression at its limit', withRegex('a'.repeat(768))),
  large('a regular expression beyond its limit', withRegex('a'.repeat(769)), [
    `spec.descriptors[0].match.regex: "${'a'.repeat(62)}… has 769 characters; expected a string of 1 to 768 characters`,
  ]),
  large('as many siblings as there may be', { domain: 'a', descriptors: siblings(maxSiblings) }),
  large('more siblings than there may be', { domain: 'a', descriptors: siblings(maxSiblings + 1) }, [
    'spec.descriptors: has 10001 items; at most 10000 are allowed',
  ]),
  large('as many levels as there may be', nested(maxDescriptorLevels)),
  large('an empty list below the last level', nested(maxDescriptorLevels, { descriptors: [] })),
  large('more levels than there may be', nested(maxDescriptorLevels + 1), [
    `spec${'.descriptors[0]'.repeat(8)}.descriptors: descriptors are nested deeper than the 8 levels allowed`,
  ]),
  large('more replaced rules than there may be', withReplaces(maxReplaces + 1), [
    'spec.descriptors[0].rateLimit.replaces: has 17 items; at most 16 are allowed',
  ]),
  large('as many replaced rules as there may be', withReplaces(maxReplaces)),
  large('thousands of limits below the first level', { domain: 'a', descriptors: grid(70) }),
  large('thousands of descriptors with several limits below the first level', {
    domain: 'a',
    descriptors: grid(55, () => ({ limits: [slidingMember, bucketMember] })),
  }),
  large(
    'a wrong limit among thousands of descriptors below the first level',
    {
      domain: 'a',
      descriptors: grid(60, last => ({ limits: [slidingMember, last ? unboundMember : bucketMember] })),
    },
    ['spec.descriptors[59].descriptors[59].limits[1].burst: 9 needs algorithm: TokenBucket, not FixedWindow'],
  ),
  large('as much metadata as there may be', withMetadata(maxMetadataFields)),
  large('more metadata than there may be', withMetadata(maxMetadataFields + 1), [
    'spec.descriptors[0].metadata: has 65 fields; at most 64 are allowed',
  ]),
  large('more problems than are listed', { ...smallest, descriptors: Array(120).fill(1) }, [
    ...Array.from(
      { length: 100 },
      (_, index) => `spec.descriptors[${index}]: 1 is not allowed; expected a map`,
    ),
    ': 20 more problems, which are not listed',
  ]),
]

function large(name: string, spec: unknown, problems: readonly string[] = []): Case {
  return {
    name,
    resource: {
      apiVersion: 'tollway.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name: 'a' },
      spec,
    },
    problems,
  }
}

function siblings(count: number): unknown[] {
  return Array.from({ length: count }, (_, index) => ({ key: 'user', value: `${index}` }))
}

/** Returns `side` parents with `side` rules each; `fieldsOf` is called with true for the last rule. */
function grid(side: number, fieldsOf: (isLast: boolean) => object = () => ({ rateLimit: rule })): unknown[] {
  const last = side - 1
  const rules = (isLast: boolean) =>
    siblings(side).map((leaf, index) => ({ ...(leaf as object), ...fieldsOf(isLast && index === last) }))
  return siblings(side).map((step, index) => ({ ...(step as object), descriptors: rules(index === last) }))
}

function nested(levels: number, last: object = {}): unknown {
  let descriptors: unknown[] = [{ key: 'a', ...last }]
  for (let level = 1; level < levels; level++) descriptors = [{ key: 'a', descriptors }]
  return { ...smallest, descriptors }
}

function withReplaces(count: number): unknown {
  const replaces = Array.from({ length: count }, (_, index) => ({ name: `rule-${index}` }))
  return { ...smallest, descriptors: [{ key: 'a', rateLimit: { unlimited: true, replaces } }] }
}

function withRegex(regex: string): unknown {
  return { ...smallest, descriptors: [{ key: 'a', match: { regex } }] }
}

function withMetadata(count: number): unknown {
  const metadata = Object.fromEntries(Array.from({ length: count }, (_, index) => [`field-${index}`, null]))
  return { ...smallest, descriptors: [{ key: 'a', metadata }] }
}
