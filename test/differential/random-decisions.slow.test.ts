import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { comparableSums } from './differences.ts'
import { type Pair, startPair } from './pair.ts'
import { domainOf, filesOf, type Mode, maxTries, play, type Scene } from './play.ts'
import { configurations, type Descriptor, requestPlans, type TrafficOptions } from './random-traffic.ts'
import { missingReference } from './start-reference.ts'

const skip = missingProgram('redis-server') || missingReference()

/** The total number of requests. */
const runs = Number(process.env['FC_RUNS'] ?? 200)
const seed = Number(process.env['FC_SEED'] ?? (process.env['SOAK'] === '1' ? Date.now() % 2 ** 31 : 1))

interface Variant extends Mode, TrafficOptions {
  readonly env: Readonly<Record<string, string>>
  /** Every second domain has only quotas. */
  readonly quotas: boolean
}

const usual: Variant = {
  env: { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', RESPONSE_DYNAMIC_METADATA: 'true' },
  globalShadowMode: false,
  globalQuotaMode: false,
  quotas: false,
  units: ['second', 'MINUTE', 'Hour', 'day', 'week', 'month', 'year'],
}
// A counter in the local cache outlives its window, so windows must not end soon here.
const longUnits = ['day', 'week', 'month', 'year']

const variants: Readonly<Record<string, Variant>> = {
  'default settings': { ...usual, quotas: true },
  'all are quotas': { ...usual, globalQuotaMode: true, env: { ...usual.env, QUOTA_MODE: '1' } },
  'global shadow mode and a local cache': {
    ...usual,
    globalShadowMode: true,
    units: longUnits,
    env: { ...usual.env, SHADOW_MODE: 't', LOCAL_CACHE_SIZE_IN_BYTES: '1000000', NEAR_LIMIT_RATIO: '0.33' },
  },
  'no increment when over the limit': {
    ...usual,
    env: {
      ...usual.env,
      STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true',
      NEAR_LIMIT_RATIO: '0.5',
      LIMIT_LIMIT_HEADER: 'X-L',
      LIMIT_REMAINING_HEADER: 'X-R',
      LIMIT_RESET_HEADER: 'X-S',
    },
  },
  'no increment when over the limit, and a local cache': {
    ...usual,
    units: longUnits,
    env: { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true', LOCAL_CACHE_SIZE_IN_BYTES: '1000000' },
  },
}

const runsOfVariant = Math.ceil(runs / Object.keys(variants).length)
/** More runs would make the configurations of one process large, and its counters in Redis numerous. */
const maxRunsOfRound = 4000

for (const [name, variant] of Object.entries(variants)) {
  const rounds = Math.ceil(runsOfVariant / maxRunsOfRound)
  test(`${runsOfVariant} random requests, ${name} (FC_SEED=${seed})`, {
    skip,
    timeout: 7_200_000,
  }, async t => {
    const used = new Set<string>()
    for (let round = 0; round < rounds; round++) {
      await playRound(t, variant, seed + round, Math.ceil(runsOfVariant / rounds), used)
    }
    t.diagnostic(`intentional differences that occurred: ${[...used].join('; ')}`)
  })
}

async function playRound(
  t: TestContext,
  variant: Variant,
  roundSeed: number,
  requests: number,
  used: Set<string>,
): Promise<void> {
  const ending: (() => Promise<unknown>)[] = []
  const cleanup = { after: (end: () => Promise<unknown>) => void ending.unshift(end) }
  try {
    const redis = await startRedis()
    cleanup.after(() => redis.stop())
    const scenes = scenesOf(variant, roundSeed, requests)
    const pair = await startPair(cleanup, { redis, files: scenes.flatMap(filesOf), env: variant.env })
    const judged = new Set<string>()
    for (const scene of scenes) {
      const domain = await play(pair, scene, variant, used)
      if (domain === undefined) t.diagnostic(`${scene.name} not judged: windows ended`)
      else judged.add(domain)
    }
    assert.ok(judged.size > scenes.length * 0.8, `only ${judged.size} of ${scenes.length} were judged`)
    const thrown = scenes.flatMap(scene =>
      Array.from({ length: maxTries }, (_, attempt) => domainOf(scene, attempt)).filter(d => !judged.has(d)),
    )
    await compareStats(pair, new Set(thrown))
  } finally {
    for (const end of ending) await end()
  }
}

function scenesOf(variant: Variant, roundSeed: number, requests: number): readonly Scene[] {
  const plansOfScene = Math.min(40, Math.max(8, Math.ceil(requests / 50)))
  const numRuns = Math.ceil(requests / plansOfScene)
  const configs = fc.sample(configurations(variant), { seed: roundSeed, numRuns })
  return configs.map((config, index) => {
    const quotas = variant.quotas && index % 2 === 0
    const plans = fc.sample(requestPlans, { seed: roundSeed * 1000 + index, numRuns: plansOfScene })
    return { name: `d${index}`, descriptors: quotas ? config.map(asQuota) : config, plans, quotas }
  })
}

function asQuota(descriptor: Descriptor): Descriptor {
  const { descriptors } = descriptor
  return { ...descriptor, quota_mode: true, ...(descriptors && { descriptors: descriptors.map(asQuota) }) }
}

/** Compares the sums of statistics, except for domains that were not compared. */
async function compareStats(pair: Pair, thrown: ReadonlySet<string>): Promise<void> {
  const counted = (sums: ReadonlyMap<string, number>) =>
    new Map(
      [...sums].filter(([name, value]) => {
        const [, domain = ''] = /^ratelimit\.service\.rate_limit\.([\w-]+?)[._]/.exec(name) ?? []
        const isShadow = name === 'ratelimit.service.global_shadow_mode'
        return value > 0 && !thrown.has(domain) && !(isShadow && thrown.size > 0)
      }),
    )
  const ours = () => counted(comparableSums(pair.ours.sums()))
  const reference = () => counted(comparableSums(pair.reference.sums()))
  const differing = () => {
    const [own, its] = [ours(), reference()]
    const names = [...new Set([...own.keys(), ...its.keys()])].filter(name => own.get(name) !== its.get(name))
    return names.map(name => `${name}: ${own.get(name)} in the service, ${its.get(name)} in the reference`)
  }
  // Statistics are sent periodically, so the last ones may be in transit.
  await waitFor('the same statistics', () => differing().length === 0).catch(() => {
    assert.fail(differing().slice(0, 50).join('\n'))
  })
  assert.ok(ours().size > 10)
}
