import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { listLimits } from '../rules/compile.ts'
import { match } from '../rules/match.ts'
import type { Reading } from './reading.ts'
import { responseOf } from './testing/encode-domain.ts'
import { filesReading, openConfiguration } from './testing/open-configuration.ts'

const yaml = (domain: string, unit = 'minute') =>
  `domain: ${domain}\ndescriptors: [{key: k, rate_limit: {unit: ${unit}, requests_per_unit: 1}}]\n`

for (const [where, inlineBytes] of [
  ['in this thread', Number.POSITIVE_INFINITY],
  ['in a separate thread', -1],
] as const) {
  describe(`a configuration that is read ${where}`, () => {
    test('is all or nothing: one invalid file keeps the active configuration', async () => {
      const { configuration, errors, loads, rejections } = openConfiguration('snake', { inlineBytes })
      assert.equal(configuration.rules(), undefined)
      assert.deepEqual(await configuration.load(filesReading({ 'a.yaml': yaml('a') })), [])
      const before = configuration.rules()
      const wrong = { 'a.yaml': yaml('a'), 'b.yaml': yaml('b', 'minuet') }
      const problems = await configuration.load(filesReading(wrong))
      assert.equal(problems[0]?.message, "invalid rate limit unit 'minuet'")
      const seen =
        /^Error loading new configuration: b\.yaml: invalid rate limit unit 'minuet' \(at descriptors/
      assert.match(errors[0] ?? '', seen)
      assert.equal(configuration.rules(), before)
      assert.deepEqual([loads(), rejections()], [1, 1])
    })

    test('may be empty, which is valid and means no limit', async () => {
      const { configuration } = openConfiguration('snake', { inlineBytes })
      let loads = 0
      configuration.onLoad(() => {
        loads += 1
      })
      await configuration.load(filesReading({ 'a.yaml': yaml('a') }))
      await configuration.load(filesReading({}))
      assert.equal(configuration.rules()?.domains.size, 0)
      assert.equal(loads, 2)
    })

    test('has every field of every level, and its warnings are logged', async () => {
      const { configuration, warnings } = openConfiguration('snake', { inlineBytes })
      await configuration.load(filesReading({ 'a.yaml': everyField, 'b.txt': '' }))
      const rules = configuration.rules()
      assert.ok(rules)
      assert.deepEqual(
        [...listLimits(rules)],
        [
          {
            name: 'own',
            fullKey: 'a.outer.in*ner_x*',
            statName: 'a.outer.in*ner_x*',
            requestsPerUnit: 0,
            unit: 'hour',
            unitSeconds: 3600,
            unlimited: false,
            shadowMode: true,
            quotaMode: true,
            replaces: ['other'],
            metadata: JSON.parse('{"__proto__":{"list":[1,null,true]},"half":"\\ud800"}'),
          },
        ],
      )
      const found = match(rules, 'a', [
        { key: 'outer', value: 'any' },
        { key: 'in*ner', value: 'x1' },
      ])
      assert.equal(found?.baseKey, 'a_outer_any_in*ner_x*_')
      assert.deepEqual(
        warnings.map(warning => warning.replace(/^report configuration warning | \(.*/g, '')),
        [
          'b.txt: the file is not read: only *.yaml and *.yml are',
          'a.yaml: requests_per_unit is left out, which counts as 0: every request is over the limit',
        ],
      )
    })
  })
}

const everyField = `
domain: a
descriptors:
  - key: outer
    descriptors:
      - key: in*ner
        value: x*
        shadow_mode: true
        quota_mode: true
        share_threshold: true
        metadata: {__proto__: {list: [1, null, true]}, half: "\\uD800"}
        rate_limit: {unit: hour, name: own, replaces: [{name: other}]}
`

const descriptors = 100_000
/**
 * A turn may take at most this CPU time on a machine that other programs slow down; an idle one takes a fifth
 * of it.
 */
const maxTurnMs = 100

const sources: readonly [string, 'snake' | 'camel', (t: TestContext) => Reading][] = [
  ['files', 'snake', () => filesReading({ 'large.yaml': largeYaml() })],
  ['a response', 'camel', largeResponse],
]

for (const [what, spelling, readingOf] of sources) {
  test(`${descriptors} descriptors from ${what} do not stop this thread`, async t => {
    const { configuration } = openConfiguration(spelling)
    const reading = readingOf(t)
    const beganMs = performance.now()
    const longestTurnMs = watchTurns()
    assert.deepEqual(await configuration.load(reading), [])
    const turnMs = longestTurnMs()
    const tookMs = performance.now() - beganMs
    t.diagnostic(`loaded in ${Math.round(tookMs)} ms, longest turn ${Math.round(turnMs)} ms of CPU`)
    assert.ok(turnMs < maxTurnMs, `a turn of the event loop took ${turnMs} ms`)
    const rules = configuration.rules()
    assert.equal(rules && [...listLimits(rules)].length, descriptors)
  })
}

/**
 * Returns a function that ends the watch and returns the longest CPU time of this thread within one turn of
 * its event loop, without that of other programs.
 */
function watchTurns(): () => number {
  let longestMs = 0
  let before = process.threadCpuUsage()
  let watching: NodeJS.Immediate | undefined
  const look = () => {
    const { user, system } = process.threadCpuUsage(before)
    longestMs = Math.max(longestMs, (user + system) / 1000)
    before = process.threadCpuUsage()
    watching = setImmediate(look)
  }
  look()
  return () => {
    clearImmediate(watching)
    return longestMs
  }
}

function largeYaml(): string {
  const lines = ['domain: shop', 'descriptors:']
  for (let index = 0; index < descriptors; index += 1) {
    lines.push(`- {key: user, value: u${index}, rate_limit: {unit: minute, requests_per_unit: 5}}`)
  }
  return lines.join('\n')
}

function largeResponse(): Reading {
  const rateLimit = { unit: RateLimitUnit.MINUTE, requestsPerUnit: 5 }
  const each = (_: unknown, index: number) => ({ key: 'user', value: `u${index}`, rateLimit })
  const message = { name: 'shop', domain: 'shop', descriptors: Array.from({ length: descriptors }, each) }
  const value = toBinary(RateLimitConfigSchema, create(RateLimitConfigSchema, message))
  return responseOf(value)
}
