import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { startEnvoy } from '../support/envoy.ts'
import { rateLimitFiles } from '../support/rate-limit-files.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { requireProgram } from '../support/require-server.ts'

/** The domain and the descriptors of the examples' Envoy. */
const limits = `
domain: checkout
descriptors:
  - key: user
    metadata: {plan: {name: basic}}
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: path
    metadata: {plan: {name: other, tier: 1}}
    rate_limit: {unit: day, requests_per_unit: 1000}
`

async function start(t: TestContext, settings: Readonly<Record<string, string>>) {
  const { env } = rateLimitFiles(limits)
  const service = await startRateLimit(t, { ...env, BACKEND_TYPE: 'memory', DRAIN_DELAY: '0s', ...settings })
  await service.serves()
  return service
}

const ask = {
  domain: 'checkout',
  hitsAddend: 1,
  descriptors: [
    { entries: [{ key: 'path', value: '/' }] },
    { entries: [{ key: 'user', value: 'alice' }], hitsAddend: 1n },
  ],
}

const secondsToMidnight = () => 86_400 - (Math.floor(Date.now() / 1000) % 86_400)

function assertResets(text: string | undefined | null, name: string): void {
  const late = Number(text) - secondsToMidnight()
  assert.ok(late >= 0 && late < 60, `${name} is ${text}`)
}

test('responses have the headers of the nearest limit, with the names of the settings', async t => {
  const service = await start(t, {
    LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
    LIMIT_REMAINING_HEADER: 'x-left',
  })
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const results: string[] = []
  for (let call = 0; call < 3; call += 1) {
    const { overallCode, responseHeadersToAdd, dynamicMetadata } = await shouldRateLimit(ask)
    const [limit, left, reset] = responseHeadersToAdd
    assert.deepEqual(
      responseHeadersToAdd.map(({ key }) => key),
      ['RateLimit-Limit', 'x-left', 'RateLimit-Reset'],
    )
    results.push(`${Code[overallCode]} ${left?.value} of ${limit?.value}`)
    assertResets(reset?.value, 'RateLimit-Reset')
    assert.equal(dynamicMetadata, undefined, 'the descriptor did not ask for it')
  }
  assert.deepEqual(results, ['OK 1 of 2', 'OK 0 of 2', 'OVER_LIMIT 0 of 2'])
})

test('responses have dynamic metadata if that is enabled', async t => {
  const service = await start(t, { RESPONSE_DYNAMIC_METADATA: 'true' })
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const { dynamicMetadata, responseHeadersToAdd } = await shouldRateLimit(ask)
  assert.deepEqual(responseHeadersToAdd, [])
  assert.deepEqual(dynamicMetadata, {
    domain: 'checkout',
    hitsAddend: 1,
    descriptors: [{ entries: ['path=/'] }, { entries: ['user=alice'], hitsAddend: 1 }],
    metadata: { plan: { name: 'other', tier: 1 } },
  })
  const response = await fetch(`http://127.0.0.1:${service.httpPort}/json`, {
    method: 'POST',
    body: JSON.stringify({ domain: 'checkout', descriptors: [{ entries: [{ key: 'user', value: 'bob' }] }] }),
  })
  const { dynamicMetadata: shown } = (await response.json()) as { dynamicMetadata: unknown }
  assert.deepEqual(shown, {
    domain: 'checkout',
    descriptors: [{ entries: ['user=bob'] }],
    metadata: { plan: { name: 'basic' } },
  })
})

test('through Envoy the headers reach the client, with 200 and with 429', async t => {
  if (!requireProgram(t, 'envoy')) return
  const service = await start(t, { LIMIT_RESPONSE_HEADERS_ENABLED: 'true' })
  const { ingressPort } = await startEnvoy(t, service.grpcPort, {
    concurrency: 1,
    change: config => config.replace('timeout: 0.020s', 'timeout: 5s'),
  })
  const told: string[] = []
  for (let call = 0; call < 3; call += 1) {
    const response = await fetch(`http://127.0.0.1:${ingressPort}/`, { headers: { 'x-user': 'carol' } })
    await response.arrayBuffer()
    const header = (name: string) => response.headers.get(`ratelimit-${name}`)
    told.push(`${response.status} ${header('remaining')} of ${header('limit')}`)
    assertResets(header('reset'), 'ratelimit-reset')
  }
  assert.deepEqual(told, ['200 1 of 2', '200 0 of 2', '429 0 of 2'])
})
