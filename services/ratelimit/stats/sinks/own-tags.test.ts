import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStats } from '../stats.ts'
import { createLogSink } from './log-sink.ts'
import { createExposition } from './prometheus-text.ts'
import { createStatsdLines, type Dialect, dogstatsdDialect, statsdDialect } from './statsd-lines.ts'

const statName = 'ratelimit.memcache.add.__code=error'
const extraTags = new Map([['zone', 'eu']])

function statsOf(...names: readonly string[]) {
  const stats = createStats()
  for (const name of names) stats.counter(name).value += 1
  return stats
}

const linesOf = (dialect: Dialect, ...names: readonly string[]) => [
  ...createStatsdLines(statsOf(...names), dialect)(),
]

test('every sink writes the tag of a statistic like the extra tags', async () => {
  assert.deepEqual(linesOf(statsdDialect(extraTags), statName), [
    'ratelimit.memcache.add.__code=error.__zone=eu:1|c',
  ])
  const mogrifier = { pattern: /^ratelimit\.(.*)$/, name: '$1', tags: new Map([['from', '$1']]) }
  assert.deepEqual(linesOf(dogstatsdDialect(extraTags, [mogrifier]), statName), [
    'memcache.add:1|c|#zone:eu,code:error,from:memcache.add',
  ])
  let written = ''
  const sink = createLogSink(statsOf(statName), text => (written += text), extraTags)
  sink.flush()
  assert.deepEqual(JSON.parse(written), {
    name: 'ratelimit.memcache.add',
    tags: { zone: 'eu', code: 'error' },
    type: 'counter',
    value: 1,
  })
  const expose = createExposition({
    stats: statsOf(statName, 'ratelimit.memcache.add.__code=success'),
    mappings: [],
    extraTags,
    timersInMilliseconds: false,
    onProblem: assert.fail,
  })
  const { pieces } = await expose()
  assert.deepEqual(Buffer.concat(pieces).toString().split('\n').slice(2), [
    'ratelimit_memcache_add{code="error",zone="eu"} 1',
    'ratelimit_memcache_add{code="success",zone="eu"} 1',
    '',
  ])
})

test('values from callers never become tags', () => {
  const name = 'ratelimit.service.rate_limit.ratelimit.memcache.add.__code=error.total_hits'
  assert.deepEqual(linesOf(statsdDialect(new Map()), name), [`${name.replace('.__', '___')}:1|c`])
})
