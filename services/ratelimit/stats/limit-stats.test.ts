import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLimitStats, defaultNameLimits } from './limit-stats.ts'
import { createStats } from './stats.ts'

function open(limits: NonNullable<Partial<Parameters<typeof createLimitStats>[2]>> = {}) {
  const stats = createStats()
  const overflows: string[] = []
  const table = createLimitStats(stats, what => overflows.push(what), { ...defaultNameLimits, ...limits })
  const names = () => stats.entries().map(({ name }) => name.replace('ratelimit.service.rate_limit.', ''))
  return { stats, table, overflows, names }
}

test('a limit has six counters, the same at each call', () => {
  const { table, names } = open()
  assert.equal(table.attach('d.k'), table.attach('d.k'))
  assert.equal(table.attachRequested('d.k'), table.attach('d.k'))
  assert.deepEqual(names(), [
    'd.k.near_limit',
    'd.k.over_limit',
    'd.k.over_limit_with_local_cache',
    'd.k.shadow_mode',
    'd.k.total_hits',
    'd.k.within_limit',
  ])
})

test('names beyond the limit are counted together, and reported once', () => {
  const limits = { names: 2, characters: 100, charactersOfOne: 50 }
  const { table, overflows, stats } = open({ requested: limits })
  for (const name of ['a', 'b', 'c', 'd', 'a']) table.attachRequested(name).totalHits += 1
  const hits = (name: string) => stats.counter(`ratelimit.service.rate_limit.${name}.total_hits`).value
  assert.deepEqual([hits('a'), hits('b'), hits('overflow')], [2, 1, 2])
  assert.deepEqual(overflows, ['limits that are named after requests'])

  table.attach('configured').totalHits += 1
  assert.equal(hits('configured'), 1, 'callers do not use up the names of configured limits')
})

test('long names are bounded, individually and in total', () => {
  const limits = { names: 100, characters: 10, charactersOfOne: 6 }
  const { table, overflows, names } = open({ unknownDomains: limits })
  for (const domain of ['1234567', '123456', '12345', '1234']) table.domainNotFound(domain).value += 1
  assert.deepEqual(names(), ['1234.domain_not_found', '123456.domain_not_found', 'overflow.domain_not_found'])
  assert.deepEqual(overflows, ['unknown domains'])
})

test('an unknown domain is named like a limit', () => {
  const { table, names } = open()
  table.domainNotFound('10.0.0.1:80|x').value += 1
  assert.deepEqual(names(), ['10_0_0_1_80_x.domain_not_found'])
})

test('callers with new domains and values do not fill the memory', () => {
  const { table, names } = open()
  for (let call = 0; call < 5_000; call++) {
    table.domainNotFound(`domain ${call}`)
    table.attachRequested(`${'x'.repeat(5_000)}${call}`)
  }
  assert.equal(names().length, defaultNameLimits.unknownDomains.names + 1 + 6)
})
