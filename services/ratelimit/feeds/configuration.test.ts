import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Log } from '@tollway/chassis/log.ts'
import { silentLog } from '@tollway/chassis/log.ts'
import type { DomainConfig } from '../rules/config.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { createConfiguration } from './configuration.ts'

const config = (domain: string, unit = 'minute'): DomainConfig => ({
  name: `${domain}.yaml`,
  domain,
  descriptors: [
    {
      key: 'k',
      value: '',
      rateLimit: { unit, requestsPerUnit: 1, unlimited: false, name: '', replaces: [] },
      shadowMode: false,
      detailedMetric: false,
      quotaMode: false,
      valueToMetric: false,
      shareThreshold: false,
      descriptors: [],
    },
  ],
})

function open(log: Log = silentLog) {
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const configuration = createConfiguration({
    stats,
    limitStats,
    log,
    mergeDomainConfigs: false,
    spelling: 'snake',
  })
  return { stats, configuration }
}

test('a load is all or nothing: one wrong file keeps everything that was in force', () => {
  const errors: string[] = []
  const { stats, configuration } = open({ ...silentLog, error: message => errors.push(message) })
  assert.equal(configuration.rules(), undefined)
  assert.deepEqual(configuration.load([config('a')], []), [])
  const before = configuration.rules()
  const problems = configuration.load([config('a'), config('b', 'minuet')], [])
  assert.equal(problems[0]?.message, "invalid rate limit unit 'minuet'")
  assert.match(
    errors[0] ?? '',
    /^Error loading new configuration: b\.yaml: invalid rate limit unit 'minuet' \(at descriptors\[0\]/,
  )
  assert.equal(configuration.rules(), before)
  assert.equal(stats.counter('ratelimit.service.config_load_success').value, 1)
  assert.equal(stats.counter('ratelimit.service.config_load_error').value, 1)
})

test('an empty configuration is right, and means no limit', () => {
  const { configuration } = open()
  let loads = 0
  configuration.onLoad(() => {
    loads += 1
  })
  configuration.load([config('a')], [])
  configuration.load([], [])
  assert.equal(configuration.rules()?.domains.size, 0)
  assert.equal(loads, 2)
})
