import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findCondition } from '../../operator/status/status-report.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const manifests = {
  'limits.yaml': `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: checkout, namespace: shop}
spec:
  domain: checkout
  descriptors: [{key: user, rateLimit: {unit: minute, requestsPerUnit: 3}}]
`,
  'route.yaml': `apiVersion: tollway.dev/v1alpha1
kind: AnimationStreamRoute
metadata: {name: avatars, namespace: shop}
spec:
  match: {streamIdPrefix: s}
`,
}

test('processes stay ready when their Redis fails, and the status reports the failure', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const args = ['--replicas', '2', '--broker-replicas', '2', '--redis-url', redis.url]
  const tollway = await startTollway(t, manifests, args)
  await tollway.ready()
  const failing = () => tollway.status().replicas.filter(({ backendProblem }) => backendProblem !== undefined)
  const allFail = (cause: string) =>
    waitFor(`all processes to report: ${cause}`, () => failing().length === 4, 30_000)
  const allRecover = () => waitFor('all processes to recover', () => failing().length === 0, 30_000)

  await redis.kill('SIGKILL')
  await allFail('no connection')
  const { resources, replicas } = await waitFor('the conditions', () => {
    const status = tollway.status()
    return status.resources.every(one => findCondition(one, 'Degraded').status === 'True') && status
  })
  assert.ok(replicas.every(({ ready }) => ready))
  for (const resource of resources) {
    assert.equal(findCondition(resource, 'Ready').status, 'True')
    assert.equal(findCondition(resource, 'Degraded').reason, 'BackendUnavailable')
  }
  assert.match(tollway.program.output(), /place=ratelimit-0 message="its backend fails: /)
  await redis.restart()
  await allRecover()

  process.kill(redis.pid, 'SIGSTOP')
  await allFail('no answer')
  assert.ok(tollway.status().replicas.every(({ ready }) => ready))
  process.kill(redis.pid, 'SIGCONT')
  await allRecover()
})
