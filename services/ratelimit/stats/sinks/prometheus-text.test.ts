import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { defaultBuckets, defaultMappings, globPattern, type Mapping } from '../mapping/mapping.ts'
import { createStats } from '../stats.ts'
import { createExposition, type Exposition } from './prometheus-text.ts'
import { readExposition } from './testing/read-exposition.ts'

const textOf = ({ pieces }: Exposition) => Buffer.concat(pieces).toString()

function open(options: Partial<Parameters<typeof createExposition>[0]> = {}) {
  const stats = createStats()
  const problems: string[] = []
  const expose = createExposition({
    stats,
    mappings: defaultMappings,
    extraTags: new Map(),
    timersInMilliseconds: false,
    onProblem: message => problems.push(message),
    ...options,
  })
  const scrape = async () => readExposition(textOf(await expose()))
  /** Every sample that is not part of a histogram, as `name{label=value} value`. */
  const samples = async () =>
    [...(await scrape()).values()]
      .filter(({ type }) => type !== 'histogram')
      .flatMap(metric => metric.samples)
      .map(({ name, labels, value }) => {
        const shown = Object.entries(labels).map(pair => pair.join('='))
        return `${name}{${shown.join(' ')}} ${value}`
      })
  return { stats, expose, scrape, samples, problems }
}

const mapping = (match: string, name: string, more: Partial<Mapping> = {}): Mapping => ({
  pattern: globPattern(match),
  drop: false,
  name,
  labels: new Map(),
  help: '',
  buckets: defaultBuckets,
  scale: 1,
  ...more,
})

/** Statistics and their metrics in the default mapping, without `ratelimit.` and `ratelimit_`. */
const defaultCases = `
service.rate_limit.d.k.total_hits            service_rate_limit_total_hits{domain=d key1=k}
service.rate_limit.d.k_v.near_limit          service_rate_limit_near_limit{domain=d key1=k_v}
service.rate_limit.d.k_/a-b.over_limit       service_rate_limit_over_limit{domain=d key1=k_/a-b}
service.rate_limit.d.k.within_limit          service_rate_limit_within_limit{domain=d key1=k}
service.rate_limit.d.k.shadow_mode           service_rate_limit_shadow_mode{domain=d key1=k}
service.rate_limit.d.a.b.shadow_mode         service_rate_limit_shadow_mode{domain=d key1=a key2=b}
service.rate_limit.d.a.b.c.e.total_hits      service_rate_limit_total_hits{domain=d key1=a key2=b}
service.rate_limit.d..total_hits             service_rate_limit_total_hits{domain=d}
service.rate_limit.d.k.over_limit_with_local_cache    service_rate_limit_d_k_over_limit_with_local_cache{}
service.rate_limit.d.a.b.over_limit_with_local_cache  service_rate_limit_d_a_b_over_limit_with_local_cache{}
service.rate_limit.d.domain_not_found        service_rate_limit_d_domain_not_found{}
service.call.should_rate_limit.redis_error   service_should_rate_limit_error{err_type=redis_error}
service.config_load_success                  service_config_load_success{}
service.config_load_error                    service_config_load_error{}
service.global_shadow_mode                   service_global_shadow_mode{}
`

test('the default mapping has labels for domains and descriptors, and other statistics keep their names', async () => {
  for (const line of defaultCases.trim().split('\n')) {
    const [, name, expected] = /^(\S+) +(.*)$/.exec(line) ?? []
    const { stats, samples } = open()
    stats.counter(`ratelimit.${name}`).value += 3
    assert.deepEqual(await samples(), [`ratelimit_${expected} 3`])
  }
})

test('statistics with the same metric and labels are summed', async () => {
  const { stats, samples } = open()
  for (const [index, deeper] of ['', '.c', '.c.d'].entries()) {
    stats.counter(`ratelimit.service.rate_limit.d.a.b${deeper}.total_hits`).value += 10 ** index
  }
  assert.deepEqual(await samples(), ['ratelimit_service_rate_limit_total_hits{domain=d key1=a key2=b} 111'])
})

test('a mapped counter exists from the start, another one after its first hit', async () => {
  const { stats, samples } = open()
  stats.counter('ratelimit.service.config_load_error')
  const other = stats.counter('other.hits')
  assert.deepEqual(await samples(), ['ratelimit_service_config_load_error{} 0'])
  other.value += 1
  stats.gauge('9.connections', () => 5)
  const all = ['ratelimit_service_config_load_error{} 0', 'other_hits{} 1', '_9_connections{} 5']
  assert.deepEqual(await samples(), all)
})

test('the response time is a histogram in seconds, or in milliseconds if configured', async () => {
  for (const [timersInMilliseconds, sum, below] of [
    [false, 10.005, 1],
    [true, 10_005, 0],
  ] as const) {
    const { stats, scrape } = open({ timersInMilliseconds })
    const time = stats.histogram('ratelimit_server.ShouldRateLimit.response_time')
    for (const ms of [4, 1, 10_000]) time.record(ms)
    const metric = (await scrape()).get('ratelimit_service_response_time_seconds')
    assert.equal(metric?.type, 'histogram')
    const labels = { grpc_method: 'ShouldRateLimit' }
    const find = (suffix: string, more = {}) => {
      const wanted = JSON.stringify({ ...labels, ...more })
      const samples = metric.samples.filter(sample => sample.name.endsWith(suffix))
      return samples.find(sample => JSON.stringify(sample.labels) === wanted)?.value
    }
    assert.deepEqual([find('_sum'), find('_count')], [sum, 3])
    assert.deepEqual([find('_bucket', { le: '+Inf' }), find('_bucket', { le: '2.5' })], [3, 2 - (1 - below)])
  }
})

test('extra tags are labels, unless a mapping has a label with the same name', async () => {
  const extraTags = new Map([
    ['zone', 'eu.west:1'],
    ['my-tag', '1'],
    ['le', 'x'],
    ['domain', 'never'],
  ])
  const { stats, samples } = open({ extraTags })
  stats.counter('ratelimit.service.rate_limit.d.k.total_hits').value += 1
  const labels = 'domain=d key1=k my_tag=1 tag_le=x zone=eu.west:1'
  assert.deepEqual(await samples(), [`ratelimit_service_rate_limit_total_hits{${labels}} 1`])
})

test('the first mapping wins; it can apply to one kind, scale, drop, and use groups in names', async () => {
  const mappings = [
    mapping('a.*.gone', '', { drop: true }),
    mapping('a.*', 'gauge_$1', { kind: 'gauge', scale: 0.5 }),
    mapping('a.*', 'all_$1_$9', { labels: new Map([['of', '$0 $1']]) }),
    mapping('a.b', 'never'),
  ]
  const { stats, samples } = open({ mappings })
  stats.counter('a.b').value += 1
  stats.counter('a.b.gone').value += 1
  stats.gauge('a.c-d', () => 3)
  assert.deepEqual((await samples()).sort(), ['all_b_{of=a.b b} 1', 'gauge_c_d{} 1.5'])
})

test('a metric that conflicts with another one is reported once, and others are not affected', async () => {
  const { stats, samples, problems } = open({ mappings: [] })
  stats.counter('a.b').value += 1
  stats.gauge('a_b', () => 1)
  stats.gauge('a:b', () => 1)
  stats.counter('time.count').value += 1
  stats.histogram('time').record(1)
  stats.counter('').value += 1
  stats.counter('c').value += 1
  assert.deepEqual(await samples(), ['a_b{} 1', 'time_count{} 1', 'c{} 1'])
  await samples()
  assert.equal(problems.length, 3)
  assert.match(problems.join(), /gauge a_b .*"a_b"/)
})

test('names and labels from callers never break the format or other series', async () => {
  const hostile = fc.string({ unit: fc.constantFrom(...'ab."\\\n\r{},= #é😀\ud800\0') })
  const mappings = [mapping('m.*', 'm', { labels: new Map([['l', '$1']]) })]
  await fc.assert(
    fc.asyncProperty(fc.array(hostile, { maxLength: 20 }), hostile, async (names, tag) => {
      const { stats, scrape } = open({ mappings, extraTags: new Map([[`t${tag}`, tag]]) })
      const expected = new Map<string, number>()
      for (const name of names) {
        const part = name.replaceAll('.', '_')
        stats.counter(`m.${part}`)
        stats.counter(`u.${name}`).value += 1
        expected.set(part.toWellFormed(), 0)
      }
      for (const name of names) stats.counter(`m.${name.replaceAll('.', '_')}`).value += 1
      for (const name of names) {
        const part = name.replaceAll('.', '_').toWellFormed()
        expected.set(part, (expected.get(part) ?? 0) + 1)
      }
      const samples = (await scrape()).get('m')?.samples ?? []
      const found = samples.map(({ labels, value }) => [labels['l'] ?? '', value] as const)
      assert.deepEqual(new Map(found), expected)
    }),
  )
})

test('concurrent scrapes share an answer, and later ones get a new one', async () => {
  const { stats, expose } = open()
  const hits = stats.counter('hits')
  hits.value += 1
  const [first, second] = await Promise.all([expose(), expose()])
  assert.equal(first, second)
  assert.equal(first.contentType, 'text/plain; version=0.0.4; charset=utf-8')
  hits.value += 1
  assert.match(textOf(await expose()), /\nhits 2\n/)
})

test('a scrape of many series yields to the event loop', async () => {
  const { stats, expose } = open()
  for (let index = 0; index < 20_000; index++) {
    stats.counter(`ratelimit.service.rate_limit.d.k_${index}.total_hits`).value += 1
  }
  let turns = 0
  const count = () => {
    turns += 1
    running = setImmediate(count)
  }
  let running = setImmediate(count)
  await expose()
  clearImmediate(running)
  assert.ok(turns > 20, `${turns} turns`)
})
