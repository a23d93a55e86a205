import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { missingKubeAssets, startKubeApiServer } from '../../../../test/support/kube-api-server.ts'
import { serveKinds } from '../../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { createKubeClient } from '../api/client.ts'
import { createEventRecorder } from '../api/events.ts'
import type { StoredResource } from '../status/stored-resource.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from '../testing/service-account.ts'
import { recordCounterChange } from './record-change.ts'

const path = '/apis/tollway.dev/v1alpha1/namespaces/default/ratelimitconfigs'

test('a reset and a raise, and one with an unknown outcome, create Events with the name of the user', {
  skip: missingKubeAssets(),
}, async t => {
  const kube = await startKubeApiServer()
  t.after(() => kube.stop())
  await serveKinds(kube, [rateLimitConfigKind])
  const { body: stored } = await kube.call('POST', path, {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: 'checkout' },
    spec: {
      domain: 'checkout',
      descriptors: [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit: 1 } }],
    },
  })
  const token = await makeOperatorAccount(kube, 'tollway')
  const account = { namespace: 'tollway', token }
  const access = writeServiceAccount(temporaryFolder('operator-account'), await addressOf(kube), account)
  const client = createKubeClient(access, { random: Math.random })
  t.after(() => client.close())
  const lost: string[] = []
  let ids = 0
  const events = createEventRecorder({
    client,
    reportingInstance: 'operator-0',
    newId: () => `${++ids}`,
    onLost: (count, cause) => lost.push(`${count} ${cause}`),
  })
  const limits = { list: () => [stored as StoredResource] }
  const owner = { namespace: 'default', name: 'checkout' }
  const change = { user: 'alice@example.com', domain: 'checkout', rule: 'checkout.user', owner }
  const clock = { nowMs: () => Date.UTC(2026, 0, 1) }
  recordCounterChange(events, limits, clock, { ...change, action: 'reset' })
  recordCounterChange(events, limits, clock, { ...change, action: 'raise', by: 5 })
  const unknown = 'no process answered within 2000 ms'
  recordCounterChange(events, limits, clock, { ...change, action: 'reset', rule: '', unknown })
  await events.settled()
  assert.deepEqual(lost, [])
  const { body } = await kube.call('GET', '/apis/events.k8s.io/v1/namespaces/default/events')
  const { items } = body as {
    items: { type: string; reason: string; note: string; regarding: { name: string } }[]
  }
  const shown = items
    .filter(({ regarding }) => regarding.name === 'checkout')
    .map(({ type, reason, note }) => `${type} ${reason}: ${note}`)
  const time = 'in the domain checkout at 2026-01-01T00:00:00.000Z'
  const place = `of the rule checkout.user ${time}`
  assert.deepEqual(shown.sort(), [
    `Normal CounterRaised: alice@example.com raised a counter by 5 ${place}`,
    `Normal CounterReset: alice@example.com reset a counter ${place}`,
    `Warning CounterReset: alice@example.com may have reset a counter ${time}: ${unknown}`,
  ])
})
