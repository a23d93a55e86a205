import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, type TestContext, test } from 'node:test'
import { array, constantFrom, double, integer, nat, oneof, record, sample } from 'fast-check'
import { type RedisCluster, startRedisCluster } from '../../../../test/support/redis-cluster.ts'
import { type RedisServer, startRedis } from '../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import type { ShareReport } from '../../shares/shares.ts'
import type { BucketShares } from '../bucket-shares.ts'
import { MemoryBucketShares } from '../memory-bucket-shares.ts'
import { bucketSharesContract } from '../testing/bucket-shares.contract.ts'
import { openRedis, type TestedOptions } from '../testing/open-redis-counters.ts'

/** The number of traces that are compared. `make soak` runs a million. */
const traces = Number(process.env['TRACES'] ?? 1_000)
/** The number of traces that run at the same time, each with a bucket of its own. */
const atOnce = 250
const beginMs = 1_800_000_000_000

const reliabilityPage = new URL('../../../../docs/operations/reliability.md', import.meta.url)
const skip = missingProgram('redis-server')

function startTime() {
  let nowMs = beginMs
  return {
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    timeMicros: () => nowMs * 1_000,
    pass(ms: number) {
      nowMs += ms
    },
  }
}

async function openBoth(t: TestContext, options: TestedOptions) {
  const { timeMicros, pass, clock } = startTime()
  const [counters, peer] = await Promise.all([
    openRedis(t, { timeMicros, clock, ...options }),
    openRedis(t, { timeMicros, clock, ...options }),
  ])
  t.after(() => Promise.all([counters.close(), peer.close()]))
  return { shares: counters.openBucketShares('rl:'), peer: peer.openBucketShares('rl:'), pass, clock }
}

bucketSharesContract('Memory', async () => {
  const { clock, pass } = startTime()
  return { shares: new MemoryBucketShares(clock), pass }
})

describe('shares of buckets in Redis', { skip }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
  })
  after(() => redis.stop())

  bucketSharesContract('Redis', async t => {
    await redis.command('FLUSHALL')
    return await openBoth(t, { url: redis.socketPath })
  })

  bucketSharesContract('Redis with a user who has only the documented commands', async t => {
    await redis.command('FLUSHALL')
    const page = readFileSync(reliabilityPage, 'utf8')
    const [, listed = ''] = /ACL SETUSER tollway (.*)/.exec(page) ?? []
    const commands = listed.split(' ').filter(word => word.startsWith('+'))
    await redis.command('ACL', 'SETUSER', 'restricted', 'reset', 'on', '>plain', '~rl:*', ...commands)
    return await openBoth(t, { url: redis.url, auth: 'restricted:plain' })
  })

  test(`the script equals Shares on ${traces} traces, in which Redis loses its data`, async t => {
    for (let done = 0; done < traces; done += atOnce) {
      await redis.command('FLUSHALL')
      const { shares, peer, clock, pass } = await openBoth(t, { url: redis.socketPath })
      const all = sample(trace, Math.min(atOnce, traces - done))
      let memory = new MemoryBucketShares(clock)
      for (let step = 0; step < steps; step += 1) {
        pass(pauses[step % pauses.length] ?? 0)
        if (step === stepOfLoss) {
          await redis.command('FLUSHALL')
          memory = new MemoryBucketShares(clock)
        }
        const process = step < stepOfLoss ? shares : peer
        const answers = all.map(async (actions, index) => {
          const action = actions[step]
          if (action === undefined) return
          const bucket = `trace ${index}`
          const answer = await run(process, bucket, action)
          assert.equal(answer, await run(memory, bucket, action), JSON.stringify(actions.slice(0, step + 1)))
        })
        await Promise.all(answers)
      }
    }
  })

  test('Redis that has lost its data grants nothing beyond what is held until earlier grants have expired', async t => {
    await redis.command('FLUSHALL')
    const { shares, peer, pass } = await openBoth(t, { url: redis.socketPath })
    const renew = async (member: string, held: number, sequence: number) => {
      const report = { wanted: 5_000, held, sequence }
      return await (member === 'a' ? shares : peer).renew({
        bucket: 'bucket',
        member,
        capacity: 1_000,
        report,
      })
    }
    await renew('a', 0, 1)
    pass(20_000)
    assert.equal(await renew('a', 0, 2), 995)
    await redis.command('FLUSHALL')
    assert.equal(await renew('b', 0, 1), 0)
    assert.equal(await renew('a', 995, 3), 497)
    pass(19_999)
    assert.equal(await renew('b', 0, 2), 0)
    assert.equal(await renew('a', 497, 4), 497)
    pass(1)
    assert.equal(await renew('b', 0, 3), 498)
  })

  test('a bucket takes no memory when its grants have expired', async t => {
    await redis.command('FLUSHALL')
    const { shares } = await openBoth(t, { url: redis.socketPath })
    await shares.renew({
      bucket: 'bucket',
      member: 'a',
      capacity: 1_000,
      report: { wanted: 1, held: 0, sequence: 1 },
    })
    const keys = (await redis.command('KEYS', 'rl:*:bucket')).split('\n')
    assert.equal(keys.length, 1)
    const ttl = Number(await redis.command('PTTL', keys[0] ?? ''))
    assert.ok(ttl > 0 && ttl <= 20_000, `${ttl} ms`)
  })
})

describe('shares of buckets in a Redis Cluster', { skip }, () => {
  let cluster: RedisCluster
  before(async () => {
    cluster = await startRedisCluster()
  })
  after(() => cluster?.stop())

  bucketSharesContract('Redis Cluster', async t => {
    await cluster.onMasters('FLUSHALL')
    return await openBoth(t, { type: 'cluster', url: cluster.url })
  })
})

const steps = 40
const stepOfLoss = 25
/** In milliseconds. The sum is below the time to live of Redis's keys, which the test cannot change. */
const pauses = [0, 1, 2_500, 0, 500, 5_000, 0, 4_999, 20_000, 0, 1, 7_500]

const amount = oneof(integer({ min: 0, max: 50 }), integer({ min: 0, max: 4_294_967_295 }))

const action = record({
  name: oneof(
    { weight: 20, arbitrary: constantFrom('renew' as const) },
    { weight: 2, arbitrary: constantFrom('move' as const, 'leave' as const) },
  ),
  member: nat(4),
  other: nat(4),
  wanted: amount,
  granted: amount,
  held: oneof(amount, integer({ min: 0, max: 300 })),
  weight: oneof({ weight: 3, arbitrary: constantFrom(1) }, integer({ min: 1, max: 100 })),
  floor: oneof({ weight: 4, arbitrary: constantFrom(0) }, integer({ min: 0, max: 40 })),
  /** Some reports are late. */
  sign: oneof({ weight: 9, arbitrary: constantFrom(1) }, constantFrom(-1)),
})

interface Action extends Required<ShareReport> {
  readonly name: 'renew' | 'move' | 'leave'
  readonly member: number
  readonly other: number
  readonly capacity: number
}

/** The capacity of a trace, which changes in some of them. */
const trace = record({
  capacities: array(oneof(integer({ min: 0, max: 300 }), amount), { minLength: 1, maxLength: 3 }),
  part: double({ min: 0.5, max: 2, noNaN: true }),
  actions: array(action, { minLength: steps, maxLength: steps, size: 'max' }),
}).map(({ capacities, part, actions }): readonly Action[] =>
  actions.map((each, index) => {
    const capacity = capacities[Math.floor((index * capacities.length) / steps)] ?? 0
    // A wanted amount near a fair part has the most roundings.
    const wanted = index % 3 === 0 ? each.wanted : Math.floor((capacity / 4) * part)
    return { ...each, capacity, wanted, sequence: index * each.sign }
  }),
)

async function run(shares: BucketShares, bucket: string, action: Action) {
  const { name, capacity, wanted, held, weight, floor, sequence, granted } = action
  const member = `m${action.member}`
  if (name === 'leave') return await shares.leave(bucket, member)
  if (name === 'move') return await shares.move(bucket, member, `m${action.other}`, held)
  const report = { wanted, held, weight, floor, sequence, granted }
  return await shares.renew({ bucket, member, capacity, report })
}
