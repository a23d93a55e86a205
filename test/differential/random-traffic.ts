import { RateLimitUnit } from '@tollway/proto/envoy/type/v3/ratelimit_unit'
import fc from 'fast-check'
import type { Request } from './pair.ts'

/** A descriptor of a configuration file, as in YAML. */
export interface Descriptor {
  readonly key: string
  readonly value?: string
  readonly rate_limit?: Readonly<Record<string, unknown>>
  readonly descriptors?: readonly Descriptor[]
  readonly share_threshold?: boolean
  readonly [flag: string]: unknown
}

/** The plan of a descriptor of a request, which is resolved against a configuration. */
interface Step {
  /** The index of the descriptor in its level; a larger one selects an unknown key. */
  readonly child: number
  /** The value for a descriptor with any value, or instead of the configured one. */
  readonly value: string
  readonly keepsToConfig: boolean
}

interface DescriptorPlan {
  readonly steps: readonly Step[]
  readonly hitsAddend: number | undefined
  readonly limit: { readonly requestsPerUnit: number; readonly unit: RateLimitUnit } | undefined
}

export interface RequestPlan {
  readonly domain: 'known' | 'unknown' | 'empty'
  readonly descriptors: readonly DescriptorPlan[]
  readonly hitsAddend: number
}

/** `_` occurs only in names of JavaScript's objects: `a_b` can be a key, or a key and its value. */
const keys = ['k', 'user-agent', 'a.b', '__proto__', 'constructor', 'ключ']
const values = ['', 'v', 'w_x', 'files/a', 'files/b', '10.1.2.3', 'a:b|c', 'é☃😀', 'x y', '*', 'toString']
const wildcards = ['*', 'files/*', 'w*', 'é*']

const rarely = (name: string) =>
  fc.nat(5).map((dice): Record<string, boolean> => (dice === 0 ? { [name]: true } : {}))

const names = fc.constantFrom('', '', 'n1', 'n2', 'n3')

const replacing = (name: string) =>
  fc
    .subarray(['n1', 'n2', 'n3'])
    .map(list => list.filter(other => other !== name).map(other => ({ name: other })))

const named = names.chain(name =>
  replacing(name).map(replaces => ({
    ...(name !== '' && { name }),
    ...(replaces.length > 0 && { replaces }),
  })),
)

export interface TrafficOptions {
  readonly units: readonly string[]
}

function rateLimits({ units }: TrafficOptions) {
  const counts = fc.oneof(
    { weight: 8, arbitrary: fc.nat(8) },
    { weight: 1, arbitrary: fc.constantFrom(100, 16_777_217, 0xffffffff) },
  )
  const counted = fc.record({ unit: fc.constantFrom(...units), requests_per_unit: counts })
  const limited = fc.tuple(counted, named).map(([limit, name]) => ({ ...limit, ...name }))
  return fc.oneof(
    { weight: 8, arbitrary: limited },
    { weight: 1, arbitrary: named.map(name => ({ ...name, unlimited: true })) },
  )
}

function descriptorsOf(options: TrafficOptions, depth: number): fc.Arbitrary<readonly Descriptor[]> {
  const value = fc.oneof(
    { weight: 2, arbitrary: fc.constant('') },
    { weight: 3, arbitrary: fc.constantFrom(...values) },
    { weight: 2, arbitrary: fc.constantFrom(...wildcards) },
  )
  const flags = fc
    .tuple(rarely('shadow_mode'), rarely('detailed_metric'), rarely('value_to_metric'))
    .map(list => Object.assign({}, ...list) as Record<string, boolean>)
  const below =
    depth === 0
      ? fc.constant([])
      : fc.oneof(
          { weight: 2, arbitrary: fc.constant([]) },
          { weight: 1, arbitrary: descriptorsOf(options, depth - 1) },
        )
  const one = fc
    .record({
      key: fc.constantFrom(...keys),
      value,
      limit: fc.oneof({ weight: 5, arbitrary: rateLimits(options) }, fc.constant(undefined)),
      flags,
      shares: fc.boolean(),
      below,
    })
    .map(
      ({ key, value, limit, flags, shares, below }): Descriptor => ({
        key,
        ...(value !== '' && { value }),
        ...(limit && { rate_limit: limit }),
        ...flags,
        ...(shares && value.endsWith('*') && { share_threshold: true }),
        ...(below.length > 0 && { descriptors: below }),
      }),
    )
  const spelling = ({ key, value = '' }: Descriptor) => `${key}\0${value}`
  return fc.uniqueArray(one, { minLength: 1, maxLength: 6, selector: spelling })
}

/** Generates the descriptors of one domain. */
export const configurations = (options: TrafficOptions) => descriptorsOf(options, 2)

const steps = fc.record<Step>({
  child: fc.nat(7),
  value: fc.constantFrom(...values),
  keepsToConfig: fc.nat(9).map(dice => dice > 0),
})

const ownLimits = fc.record({
  requestsPerUnit: fc.nat(5),
  unit: fc.constantFrom(RateLimitUnit.HOUR, RateLimitUnit.DAY, RateLimitUnit.MONTH, RateLimitUnit.YEAR),
})

const descriptorPlans = fc.record<DescriptorPlan>({
  steps: fc.array(steps, { maxLength: 3 }),
  hitsAddend: fc.oneof(
    { weight: 8, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: fc.nat(6) },
    { weight: 1, arbitrary: fc.constantFrom(2 ** 31, 2 ** 32, 2 ** 40) },
  ),
  limit: fc.oneof({ weight: 12, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: ownLimits }),
})

/** Plans of requests, which `requestOf` resolves against a configuration. */
export const requestPlans = fc.record<RequestPlan>({
  domain: fc.oneof(
    { weight: 30, arbitrary: fc.constant('known' as const) },
    { weight: 1, arbitrary: fc.constantFrom('unknown' as const, 'empty' as const) },
  ),
  descriptors: fc.oneof(
    { weight: 30, arbitrary: fc.array(descriptorPlans, { minLength: 1, maxLength: 4 }) },
    { weight: 1, arbitrary: fc.constant([]) },
  ),
  hitsAddend: fc.oneof(
    { weight: 6, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.nat(5) },
    { weight: 1, arbitrary: fc.constant(0xffffffff) },
  ),
})

export function requestOf(plan: RequestPlan, domain: string, config: readonly Descriptor[]): Request {
  return {
    domain: { known: domain, unknown: `not-${domain}`, empty: '' }[plan.domain],
    hitsAddend: plan.hitsAddend,
    descriptors: plan.descriptors.map(({ steps, hitsAddend, limit }) => ({
      entries: entriesOf(steps, config),
      ...(hitsAddend !== undefined && { hitsAddend: BigInt(hitsAddend) }),
      ...(limit && { limit }),
    })),
  }
}

function entriesOf(steps: readonly Step[], config: readonly Descriptor[]) {
  let level: readonly Descriptor[] = config
  return steps.map(({ child, value, keepsToConfig }) => {
    const rule = level[child % (level.length + 1)]
    level = rule?.descriptors ?? []
    if (rule === undefined) return { key: keys[child % keys.length] ?? 'k', value }
    const configured = rule.value?.replace('*', () => value)
    return { key: rule.key, value: keepsToConfig ? (configured ?? value) : value }
  })
}
