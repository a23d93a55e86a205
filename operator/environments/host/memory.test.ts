import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import fc from 'fast-check'
import { nearlyRightResource } from '../../../crds/testing/arbitrary-rate-limit-config.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { animationStreamRoute } from '../../kinds/animation-stream-route/animation-stream-route.ts'
import { translateAnimationStreamRoute } from '../../kinds/animation-stream-route/stream-route.ts'
import type { ResourceMemory } from '../../kinds/choose-contents.ts'
import { rateLimitConfigs } from '../../kinds/rate-limit-config/rate-limit-config.ts'
import { translateRateLimitConfig } from '../../kinds/rate-limit-config/translate-rate-limit-config.ts'
import { openRememberedFile } from './memory.ts'

const limits = rateLimitConfigs()
const routes = animationStreamRoute.open({
  routeSecrets: {
    follow: async () => {},
    tokens: () => ({ unknown: true }),
    signing: () => ({ unknown: true }),
    onChange: () => {},
  },
  loads: { sum: () => ({ activeStreams: 0, consumers: 0 }), onChange: () => {} },
})
const openFile = (path: string, onWarning: (text: string) => void) =>
  openRememberedFile(path, [limits, routes], (event, fields) =>
    onWarning(`${event} ${JSON.stringify(fields)}`),
  )
const openLimits = (path: string, onWarning: (text: string) => void) => openFile(path, onWarning).of(limits)

function place(): string {
  const folder = temporaryFolder('remembered')
  return join(folder, 'state', 'remembered.json')
}

const failOnWarning = (text: string) => assert.fail(text)
const plain: ResourceMemory<RateLimitDomain> = { firstSeenMs: 5, origin: 'a.yaml' }
const withContent: ResourceMemory<RateLimitDomain> = {
  ...plain,
  lastGood: { name: 'shop/a', domain: 'd', descriptors: [] },
}

test('entries survive a restart, in a file that only its owner can read', () => {
  const path = place()
  openLimits(path, failOnWarning).replace(new Map([['uid', withContent]]))
  assert.deepEqual(openLimits(path, failOnWarning).all(), new Map([['uid', withContent]]))
  assert.equal(statSync(path).mode & 0o777, 0o600)
})

test('entries that are left out of a write are removed', () => {
  const path = place()
  const file = openLimits(path, failOnWarning)
  file.replace(
    new Map([
      ['a', plain],
      ['b', plain],
    ]),
  )
  file.replace(new Map([['b', plain]]))
  assert.deepEqual([...openLimits(path, failOnWarning).all().keys()], ['b'])
})

test('a write without a change does not touch the file', () => {
  const path = place()
  const file = openLimits(path, failOnWarning)
  file.replace(new Map([['a', withContent]]))
  rmSync(path)
  file.replace(new Map([['a', { ...withContent }]]))
  assert.throws(() => readFileSync(path), /ENOENT/, 'nothing changed')
  file.replace(new Map([['a', { ...withContent, origin: 'b.yaml' }]]))
  assert.match(readFileSync(path, 'utf8'), /b\.yaml/)
})

test('every kind of content that can be in force is read back unchanged', () => {
  const path = place()
  fc.assert(
    fc.property(nearlyRightResource, resource => {
      const made = translateRateLimitConfig('shop/a', resource)
      if ('problems' in made) return
      rmSync(path, { force: true })
      const lastGood = made.value
      openLimits(path, failOnWarning).replace(new Map([['uid', { ...plain, lastGood }]]))
      const read = openLimits(path, failOnWarning).all().get('uid')
      assert.deepEqual(read, JSON.parse(JSON.stringify({ ...plain, lastGood })))
    }),
    { numRuns: 50 },
  )
})

const rule = {
  key: 'user',
  value: '',
  shadowMode: false,
  detailedMetric: false,
  quotaMode: false,
  valueToMetric: false,
  shareThreshold: false,
  descriptors: [],
}
const limit = { unit: 'hour', requestsPerUnit: 1, unlimited: false, name: '', replaces: [] }
const contentOf = (...descriptors: unknown[]) => ({ name: 'shop/a', domain: 'd', descriptors })

/** Entries that only another version has written, or no version. */
const strange: readonly unknown[] = [
  null,
  5,
  [],
  {},
  { firstSeenMs: 'now', origin: 'a.yaml' },
  { firstSeenMs: 5 },
  { ...plain, lastGood: null },
  { ...plain, lastGood: {} },
  { ...plain, lastGood: contentOf('user') },
  { ...plain, lastGood: contentOf({ ...rule, value: undefined }) },
  { ...plain, lastGood: contentOf({ ...rule, shadowMode: 'no' }) },
  { ...plain, lastGood: contentOf({ ...rule, metadata: [] }) },
  { ...plain, lastGood: contentOf({ ...rule, descriptors: [{}] }) },
  { ...plain, lastGood: contentOf({ ...rule, rateLimit: {} }) },
  { ...plain, lastGood: contentOf({ ...rule, rateLimit: { ...limit, requestsPerUnit: null } }) },
  { ...plain, lastGood: contentOf({ ...rule, rateLimit: { ...limit, requestsPerUnit: -3 } }) },
  { ...plain, lastGood: contentOf({ ...rule, rateLimit: { ...limit, unit: 'eon' } }) },
  { ...plain, lastGood: contentOf({ ...rule, rateLimit: { ...limit, replaces: [{ name: 'a' }] } }) },
]

test('an entry of another form is reported and skipped, and the others are read', () => {
  const path = place()
  openLimits(path, failOnWarning).replace(new Map([['a', plain]]))
  for (const entry of strange) {
    const good = { ...plain, lastGood: contentOf({ ...rule, rateLimit: limit }) }
    writeFileSync(path, JSON.stringify({ good, other: entry }))
    const warnings: string[] = []
    const read = openLimits(path, text => warnings.push(text)).all()
    assert.deepEqual([...read.keys()], ['good'], JSON.stringify(entry))
    assert.match(warnings.join(), /other.*not in the form of this version/)
  }
})

test('a broken file is reported, and its previous version counts', () => {
  const path = place()
  const file = openLimits(path, failOnWarning)
  file.replace(new Map([['a', plain]]))
  file.replace(new Map([['a', withContent]]))
  writeFileSync(path, '{"a": ')
  const warnings: string[] = []
  const memories = openLimits(path, warning => warnings.push(warning)).all()
  assert.deepEqual(memories, new Map([['a', plain]]))
  assert.match(warnings.join(), /read last good versions failed .*remembered\.json/)
})

test('a broken file without a previous version is reported, and counts as empty', () => {
  const path = place()
  assert.equal(openLimits(path, failOnWarning).all().size, 0)
  openLimits(path, failOnWarning).replace(new Map([['a', plain]]))
  for (const text of ['', '{"a": ', 'null']) {
    writeFileSync(path, text)
    const warnings: string[] = []
    assert.equal(openLimits(path, warning => warnings.push(warning)).all().size, 0)
    assert.match(warnings.join(), /read last good versions failed .*remembered\.json/)
  }
})

test('entries that cannot be written are kept in memory, and written by the next write', () => {
  const path = place()
  const remembered = openLimits(path, failOnWarning)
  mkdirSync(`${path}.new`, { recursive: true })
  const fresh = new Map([['uid', plain]])
  assert.throws(() => remembered.replace(fresh), { code: 'EISDIR' })
  assert.deepEqual(remembered.all(), fresh)
  rmSync(`${path}.new`, { recursive: true })
  remembered.replace(new Map(fresh))
  assert.deepEqual(openLimits(path, failOnWarning).all(), fresh)
})

test('kinds are stored side by side, and entries of before there were kinds belong to the first kind', () => {
  const path = place()
  const made = translateAnimationStreamRoute('shop/r', {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'AnimationStreamRoute',
    metadata: { name: 'r' },
    spec: { lateJoiners: { from: 'last', seconds: 3 }, tokenSecretRef: { name: 'tokens' } },
  })
  assert.ok('value' in made)
  const ofRoute = { ...plain, lastGood: made.value, lastGoodGeneration: 2 }
  const file = openFile(path, failOnWarning)
  file.of(limits).replace(new Map([['a', withContent]]))
  file.of(routes).replace(new Map([['r', ofRoute]]))
  file.of(limits).replace(new Map([['b', withContent]]))
  const read = openFile(path, failOnWarning)
  assert.deepEqual([...read.of(limits).all()], [['b', withContent]])
  assert.deepEqual([...read.of(routes).all()], [['r', ofRoute]])

  const wrong = { ...ofRoute, kind: 'AnimationStreamRoute', lastGood: { ...made.value, limits: {} } }
  writeFileSync(path, JSON.stringify({ old: withContent, wrong, other: { ...plain, kind: 'Merchant' } }))
  const warnings: string[] = []
  const older = openFile(path, text => warnings.push(text))
  assert.deepEqual([...older.of(limits).all()], [['old', withContent]])
  assert.equal(older.of(routes).all().size, 0)
  assert.equal(warnings.length, 2)
})
