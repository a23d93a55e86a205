import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { rateLimitConfigs } from '../../kinds/rate-limit-config/rate-limit-config.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import { Feed } from '../../xds/feed.ts'
import { hostEnvironment } from './environment.ts'
import { createFileSource } from './resources.ts'

const maxSnapshotBytes = 100

const limitOf = (name: string, key: string) => `
apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: ${name}}
spec:
  domain: ${name}
  descriptors: [{key: ${key}, rateLimit: {unit: minute, requestsPerUnit: 1}}]
`

test('resources that the feed rejects at the start are reported, and enforced once corrected', async t => {
  const folder = temporaryFolder('rejected')
  const long = join(folder, 'long.yaml')
  writeFileSync(join(folder, 'short.yaml'), limitOf('short', 'user'))
  writeFileSync(long, limitOf('long', 'k'.repeat(2 * maxSnapshotBytes)))
  const source = createFileSource({ folder, clock: systemClock, onWarn: text => assert.fail(text) })
  await source.start()
  t.after(() => source.stop())
  const errors: string[] = []
  const log = {
    debug() {},
    info() {},
    warn() {},
    error: (text: string, details?: object) => void errors.push(`${text} ${JSON.stringify(details)}`),
  }
  let statuses: readonly ResourceStatus[] = []
  const infrastructure = { observe: () => [], onChange() {} }
  const environment = hostEnvironment({
    source,
    infrastructure,
    services: ['ratelimit'],
    whySwitchedOff: () => undefined,
    rememberedPath: join(temporaryFolder('rejected-state'), 'remembered.json'),
    log,
    merchants: { stateDir: folder, provisioner: undefined, addresses: { baseUrl: '', payPageUrl: '' } },
    writeStatus: all => {
      statuses = all
    },
  })
  const feed = new Feed({
    typeUrls: [rateLimitTypeUrl],
    ids: randomUUID,
    clock: systemClock,
    log,
    limits: { maxSnapshotBytes },
  })
  const parts = { feed, loads: undefined as never, backends: { of: () => undefined } as never }
  const kind = environment.openKind(rateLimitConfigs(), parts)
  t.after(() => kind.stop())
  await kind.start()
  assert.equal(feed.published(rateLimitTypeUrl), undefined)
  await waitFor('the report', () => errors.length > 0)
  assert.match(errors[0] ?? '', /^reconcile resources failed .*at most 100 bytes are allowed/)
  rmSync(long)
  await waitFor('the snapshot', () => feed.published(rateLimitTypeUrl)?.resources.size === 1)
  assert.deepEqual(statuses, [], 'a report without the other kinds')
})
