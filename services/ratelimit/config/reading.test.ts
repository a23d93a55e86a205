import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { DiscoveryResponseSchema } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { DiscoverySession } from '@tollway/xds-client/discovery-session.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { listLimits } from '../rules/compile.ts'
import { match } from '../rules/match.ts'
import { rateLimitTypeUrl } from '../rules/model.ts'
import { findFiles } from './find-files.ts'
import { subscribe } from './open-feed.ts'
import type { Reading } from './reading.ts'
import { encodeDomain, responseOf } from './testing/encode-domain.ts'
import { openConfiguration } from './testing/open-configuration.ts'

const anyValue = [{ key: 'k', value: 'v' }]

for (const [where, inlineBytes] of [
  ['in this thread', Number.POSITIVE_INFINITY],
  ['in a separate thread', -1],
] as const) {
  test(`a domain with an unchanged resource is not compiled again, read ${where}`, async () => {
    const { configuration } = openConfiguration('camel', { inlineBytes })
    const load = async (...limits: number[]) => {
      const domains = limits.map((limit, index) => encodeDomain(`d${index}`, limit))
      assert.deepEqual(await configuration.load(responseOf(...domains)), [])
      return configuration.rules()?.domains ?? new Map()
    }
    const before = await load(1, 1)
    const after = await load(1, 2)
    assert.ok(before.get('d0'))
    assert.equal(after.get('d0'), before.get('d0'))
    assert.notEqual(after.get('d1'), before.get('d1'))
    const fewer = await load(1)
    assert.deepEqual([...fewer.keys()], ['d0'])
    assert.equal(fewer.get('d0'), before.get('d0'))
  })

  test(`files are compared by content, not by name and time, read ${where}`, async () => {
    const { configuration } = openConfiguration('snake', { inlineBytes })
    const folder = temporaryFolder('changes')
    const load = async () => {
      const problems = await configuration.load(readingOf(folder))
      assert.deepEqual(problems, [])
      return configuration.rules()?.domains ?? new Map()
    }
    writeFileSync(join(folder, 'a.yaml'), yamlOf('a', 1))
    writeFileSync(join(folder, 'b.yaml'), yamlOf('b', 1))
    const before = await load()
    writeFileSync(join(folder, 'a.yaml'), yamlOf('a', 1))
    writeFileSync(join(folder, 'b.yaml'), yamlOf('b', 2))
    const after = await load()
    assert.equal(after.get('a'), before.get('a'))
    assert.notEqual(after.get('b'), before.get('b'))
  })

  test(`a domain changes with each of its parts and with their order, read ${where}`, async () => {
    const { configuration, inForce } = openConfiguration('camel', { inlineBytes, mergeDomainConfigs: true })
    const wildcards = ['x*', 'xy*', 'xyz*'].map(value => encodeDomain('d', 1, { value, name: value }))
    const other = encodeDomain('other', 1)
    const firstMatch = () => {
      const rules = configuration.rules()
      return rules && match(rules, 'd', [{ key: 'k', value: 'xyz' }])?.limit.fullKey
    }
    const load = async (...order: number[]) => {
      const parts = order.map(index => wildcards[index] ?? other)
      assert.deepEqual(await configuration.load(responseOf(...parts)), [])
    }
    await load(0, 1, 3)
    assert.equal(firstMatch(), 'd.k_x*')
    const { domains } = configuration.rules() ?? {}
    await load(1, 0, 3)
    assert.equal(firstMatch(), 'd.k_xy*')
    assert.equal(configuration.rules()?.domains.get('other'), domains?.get('other'))
    await load(2, 3)
    assert.equal(firstMatch(), 'd.k_xyz*')
    assert.equal(inForce(), 'd:1 other:1')
  })

  test(`an active part and a new one of the same domain are validated together, read ${where}`, async () => {
    for (const mergeDomainConfigs of [false, true]) {
      const { configuration } = openConfiguration('camel', { inlineBytes, mergeDomainConfigs })
      const first = encodeDomain('d', 1)
      const second = encodeDomain('d', 2, { name: 'second' })
      assert.deepEqual(await configuration.load(responseOf(first)), [])
      const before = configuration.rules()
      const problems = await configuration.load(responseOf(first, second))
      const expected = mergeDomainConfigs
        ? "duplicate descriptor composite key 'd.k'"
        : "duplicate domain 'd' in config file"
      assert.deepEqual(
        problems.map(({ source, message }) => `${source}: ${message}`),
        [`second: ${expected}`],
      )
      assert.equal(configuration.rules(), before)
    }
  })
}

test('one invalid domain keeps the whole active configuration', async () => {
  const { configuration, inForce } = openConfiguration('camel')
  await configuration.load(responseOf(encodeDomain('a', 1), encodeDomain('b', 1)))
  const problems = await configuration.load(responseOf(encodeDomain('a', 2), encodeDomain('', 1)))
  assert.equal(problems[0]?.message, 'config file cannot have empty domain')
  assert.equal(inForce(), 'a:1 b:1')
  assert.deepEqual(await configuration.load(responseOf(encodeDomain('a', 2), encodeDomain('b', 1))), [])
  assert.equal(inForce(), 'a:2 b:1')
})

test('the statistics of a rule continue when its domain is compiled again', async () => {
  const { configuration, stats } = openConfiguration('camel')
  for (const limit of [1, 2]) {
    await configuration.load(responseOf(encodeDomain('d', limit)))
    const rules = configuration.rules()
    const found = rules && match(rules, 'd', anyValue)
    if (found) found.limit.stats.totalHits += 1
    assert.equal(rules && [...listLimits(rules)][0]?.requestsPerUnit, limit)
  }
  assert.equal(stats.counter('ratelimit.service.rate_limit.d.k.total_hits').value, 2)
})

test('warnings are logged when their domain changes, and not again', async () => {
  const { configuration, warnings } = openConfiguration('snake')
  const folder = temporaryFolder('changes')
  writeFileSync(join(folder, 'a.yaml'), 'domain: a\ndescriptors: [{key: k, rate_limit: {unit: day}}]\n')
  await configuration.load(readingOf(folder))
  assert.match(warnings[0] ?? '', /requests_per_unit is left out/)
  writeFileSync(join(folder, 'b.yaml'), yamlOf('b', 1))
  await configuration.load(readingOf(folder))
  assert.equal(warnings.length, 1)
})

test('decisions are made during the load of a response with thousands of domains', async () => {
  const { configuration, log } = openConfiguration('camel')
  const node = { nodeId: 'pod', nodeMetadata: new Map() }
  const session = new DiscoverySession({ ...subscribe(configuration), ...node, log })
  const answer = async (limit: number) => {
    const resources = Array.from({ length: 5_000 }, (_, index) => ({
      typeUrl: rateLimitTypeUrl,
      value: encodeDomain(`d${index}`, index === 0 ? limit : 1),
    }))
    const response = create(DiscoveryResponseSchema, { typeUrl: rateLimitTypeUrl, resources })
    let turns = 0
    let isLoaded = false
    const turn = () => {
      turns += 1
      if (!isLoaded) setImmediate(turn)
    }
    turn()
    const { verdict } = await session.answer(response)
    isLoaded = true
    assert.equal(verdict, 'good')
    return turns
  }
  await answer(1)
  const turns = await answer(2)
  assert.ok(turns > 8, `the load of one changed domain took ${turns} turns of the event loop`)
})

function yamlOf(domain: string, limit: number): string {
  const rateLimit = `{unit: minute, requests_per_unit: ${limit}}`
  return `domain: ${domain}\ndescriptors: [{key: k, rate_limit: ${rateLimit}}]\n`
}

function readingOf(folder: string): Reading {
  return { from: 'files', ...findFiles(folder, { keyPrefix: '', ignoreDotFiles: false }) }
}
