import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChannelListener, type Counters, CountersError, type Hit } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { compile } from '../rules/compile.ts'
import { parseYaml } from '../rules/yaml/parse-yaml.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { type LimiterSettings, openLimiter } from './open-limiter.ts'

const yaml = 'domain: d\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 1}}]\n'
const clock = { nowMs: () => 60_000, monotonicMs: () => 0 }
const request = { domain: 'd', descriptors: [{ entries: [{ key: 'user', value: 'x' }] }], hitsAddend: 1 }

const plain: LimiterSettings = {
  cacheKeyPrefix: '',
  expirationJitterMaxSeconds: 0,
  nearLimitRatio: 0.8,
  shadowMode: false,
  quotaMode: false,
  dynamicMetadata: false,
  backendFailureMode: 'error',
  backendFailureLocalShare: 1,
  localCacheBytes: 0,
  stopIncrementWhenOverLimit: false,
  responseHeaders: false,
  limitHeader: 'L',
  remainingHeader: 'R',
  resetHeader: 'S',
  headerForm: 'reference',
  problemDetails: false,
}

function open(settings: Partial<LimiterSettings>, more: Partial<Counters> = {}, limit = {}) {
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const parsed = parseYaml('test.yaml', yaml)
  assert.ok('value' in parsed)
  Object.assign(parsed.value.descriptors[0]?.rateLimit ?? {}, limit)
  const rules = compile([parsed.value], { mergeDomainConfigs: false, attach: limitStats.attach })
  const counters = { ...createMemoryCounters({ clock }), ...more }
  const failures: string[] = []
  const errors = { succeeded() {}, failed: ({ message }: Error) => void failures.push(message) }
  const parts = { rules: () => rules, counters, stats, limitStats, clock, random: () => 0, errors }
  return { limiter: openLimiter({ ...plain, ...settings }, parts), stats, failures }
}

test('hits that are given back drop the key from the local cache of every process', async () => {
  const counters = createMemoryCounters({ clock })
  const published: string[] = []
  const listeners: ChannelListener[] = []
  const openChannel: Counters['openChannel'] = (name, listener) => {
    assert.equal(name, 'p_tollway-changed-counters')
    listeners.push(listener)
    return { publish: keys => void published.push(...keys) }
  }
  const settings = { localCacheBytes: 1, cacheKeyPrefix: 'p_' }
  const add = (batch: readonly Hit[]) => Promise.resolve(counters.add(batch))
  const [first, second] = [open(settings, { add, openChannel }), open(settings, { add, openChannel })]
  const [descriptor] = request.descriptors
  assert.ok(descriptor)
  const back = { ...request, descriptors: [{ ...descriptor, hitsAddend: 2, givesBack: true }] }
  const isOver = async ({ limiter }: typeof first) => (await limiter.decide(request)).over
  assert.deepEqual([await isOver(first), await isOver(first), await isOver(second)], [false, true, true])
  await first.limiter.decide({ ...back, descriptors: [{ ...descriptor, hitsAddend: 3, givesBack: true }] })
  assert.equal(await isOver(second), true, 'the message has not arrived')
  assert.equal(await isOver(first), false, 'its own cache no longer has the key')
  assert.deepEqual(published, ['p_d_user_x_60'])
  await first.limiter.decide(back)
  listeners[1]?.onMessage('p_d_user_x_60')
  assert.equal(await isOver(second), false)
  assert.equal(await isOver(second), true)
  await first.limiter.decide(back)
  listeners[1]?.onGap()
  assert.equal(await isOver(second), false)
})

const away: Partial<Counters> = { add: () => Promise.reject(new CountersError('CLUSTERDOWN')) }
const failuresName = 'ratelimit.service.call.should_rate_limit.redis_error'

test('each failed call is counted in every mode', async () => {
  for (const backendFailureMode of ['error', 'allow', 'deny', 'local'] as const) {
    const { limiter, stats, failures } = open({ backendFailureMode }, away)
    const codes: string[] = []
    for (let call = 0; call < 12; call++) {
      const answer = await Promise.resolve(limiter.decide(request)).catch((error: Error) => error.message)
      codes.push(typeof answer === 'string' ? answer : answer.over ? 'over' : 'ok')
    }
    const first = { error: 'CLUSTERDOWN', allow: 'ok', deny: 'over', local: 'ok' }[backendFailureMode]
    const later = { error: 'CLUSTERDOWN', allow: 'ok', deny: 'over', local: 'over' }[backendFailureMode]
    assert.deepEqual(codes, [first, ...Array(11).fill(later)], backendFailureMode)
    assert.equal(stats.counter(failuresName).value, 12)
    assert.deepEqual(failures, Array(12).fill('CLUSTERDOWN'))
  }
})

test('the local cache answers without the backend, and publishes its counts', async () => {
  let asked = 0
  const memory = createMemoryCounters({ clock })
  const add: Counters['add'] = batch => {
    asked += 1
    return memory.add(batch)
  }
  const { limiter, stats } = open({ localCacheBytes: 1 }, { add })
  for (let call = 0; call < 5; call++) await limiter.decide(request)
  assert.equal(asked, 2)
  const counts = stats.entries().filter(({ name }) => name.startsWith('ratelimit.localcache.'))
  const shown = counts.map(({ name, value }) => `${name.split('.').at(-1)} ${value}`)
  assert.deepEqual(shown, [
    `averageAccessTime ${clock.nowMs() / 1000}`,
    'entryCount 1',
    'evacuateCount 0',
    'expiredCount 0',
    'hitCount 3',
    'lookupCount 5',
    'missCount 2',
    'overwriteCount 0',
  ])
})

test('leases have statistics from the first one on, when the process hears of changed counters', async () => {
  const listeners: ChannelListener[] = []
  const openChannel: Counters['openChannel'] = (_, listener) => {
    listeners.push(listener)
    return { publish() {} }
  }
  const { limiter, stats } = open({}, { openChannel }, { requestsPerUnit: 10_000, counting: 'Leased' })
  const read = () => {
    const shown = stats.entries().filter(({ name }) => name.startsWith('ratelimit.leases.'))
    return Object.fromEntries(shown.map(({ name, value }) => [name.replace('ratelimit.leases.', ''), value]))
  }
  for (let call = 0; call < 5; call++) await limiter.decide(request)
  assert.deepEqual(read(), {})
  for (let call = 0; call < 100; call++) await limiter.decide(request)
  assert.deepEqual(read(), {}, 'what is leased before the channel is open would be lost when it opens')
  assert.equal(listeners.length, 1)
  listeners[0]?.onGap()
  for (let call = 0; call < 100; call++) await limiter.decide(request)
  const { hits = 0, takes = 0, ...others } = read()
  assert.deepEqual(others, { open: 1, returns: 0, failed_takes: 0 })
  assert.ok(takes > 0 && hits >= 0, `${takes} takes, ${hits} hits`)
  await limiter.returnLeases()
  assert.deepEqual([read()['open'], read()['hits']], [0, 0])
})

test('answers have the headers that the settings name', async () => {
  const { limiter } = open({ responseHeaders: true })
  const { headers } = await limiter.decide(request)
  assert.deepEqual(headers, [
    { key: 'L', value: '1' },
    { key: 'R', value: '0' },
    { key: 'S', value: '60' },
  ])
})
