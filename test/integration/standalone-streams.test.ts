import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { encodeHeader } from '../../services/broker/wire/testing/encode-messages.ts'
import { requireProgram } from '../support/require-server.ts'
import { root, startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const route = (limits: string) => `apiVersion: tollway.dev/v1alpha1
kind: AnimationStreamRoute
metadata: {name: avatars, namespace: shop}
spec:
  match: {streamIdPrefix: s}
  limits: ${limits}
`

/** Starts a producer, which sends the header of a request, and a consumer, which receives it. */
async function stream(t: TestContext, { brokerPort }: Tollway, requestId: string) {
  const consumer = openAnimationClient(t, `127.0.0.1:${brokerPort}`).pull({ requestId })
  const producer = openAnimationClient(t, `127.0.0.1:${brokerPort}`).push()
  producer.write(encodeText('header', requestId))
  await consumer.until(`header ${requestId}`)
  return { consumer, producer }
}

const pushed = async (t: TestContext, { brokerPort }: Tollway, requestId: string): Promise<string> => {
  const producer = openAnimationClient(t, `127.0.0.1:${brokerPort}`).push()
  for (const text of ['header', '1', 'SUCCESS']) producer.write(encodeText(text, requestId))
  producer.end()
  return producer.answer
}

test('a folder with a route is enforced by a broker, and so is an edit', async t => {
  const files = { 'route.yaml': route('{messageBytes: 1024}') }
  const tollway = await startTollway(t, files, ['--broker-replicas', '1'])
  const { resources, addresses } = await tollway.ready()
  assert.deepEqual(
    resources.map(({ kind, enforced }) => [kind, enforced]),
    [['AnimationStreamRoute', '1/1']],
  )
  // No resource waits for the rate limit process.
  const readyNames = () => tollway.status().replicas.flatMap(({ name, ready }) => (ready ? [name] : []))
  await waitFor('both processes', () => readyNames().join() === 'ratelimit-0,broker-0')
  assert.equal(addresses['broker'], `127.0.0.1:${tollway.brokerPort}`)
  assert.match(tollway.program.output(), /1 broker of animation streams with 1 route, streams in memory/)
  assert.match(await pushed(t, tollway, 'r1'), /^SUCCESS/)

  await t.test('with its running requests in its status', async () => {
    const { producer, consumer } = await stream(t, tollway, 'r2')
    await waitFor('the stream in the status', () => {
      const { activeStreams, consumers } = tollway.status().resources[0]?.counts ?? {}
      return activeStreams === 1 && consumers === 1
    })
    producer.write(encodeText('SUCCESS', 'r2'))
    producer.end()
    assert.equal(await consumer.end, 'OK')
  })

  await t.test('with its limits', async () => {
    tollway.write('route.yaml', route('{messageBytes: 1024, streams: 1}'))
    await tollway.ready()
    const { producer } = await stream(t, tollway, 'r3')
    await waitFor('the new limit', async () => /RESOURCE_EXHAUSTED/.test(await pushed(t, tollway, 'r4')))
    producer.cancel()
  })

  await t.test('and the operator ends within seconds, although a consumer waits', async () => {
    const waiting = openAnimationClient(t, `127.0.0.1:${tollway.brokerPort}`).pull({ streamId: 'none' })
    const startMs = performance.now()
    assert.equal(await tollway.program.end('SIGINT'), 0)
    assert.ok(performance.now() - startMs < 8_000)
    assert.doesNotMatch(await waiting.end, /^OK/)
  })
})

test('several brokers share their streams in the Redis that tollway run starts', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const tollway = await startTollway(t, { 'route.yaml': route('{}') }, ['--broker-replicas', '2'])
  const { replicas } = await tollway.ready()
  assert.equal(replicas.length, 3)
  // The report may have a new replica before the next reconciliation counts it.
  await waitFor('both brokers to be counted', () => tollway.status().resources[0]?.enforced === '2/2')
  assert.match(tollway.program.output(), /2 brokers of animation streams with 1 route, streams in Redis/)
  // The kernel spreads connections over both, so that some of these meet at different ones.
  for (let round = 0; round < 8; round++) {
    const { producer, consumer } = await stream(t, tollway, `r${round}`)
    producer.write(encodeText('SUCCESS', `r${round}`))
    producer.end()
    assert.equal(await consumer.end, 'OK')
  }
})

test('the example of a route with every field protects its streams from any source', async t => {
  const example = readFileSync(join(root, 'examples/every-field/kiosk.yaml'), 'utf8')
  const tollway = await startTollway(t, { 'kiosk.yaml': example }, ['--broker-replicas', '1'])
  await tollway.ready()
  const client = openAnimationClient(t, `127.0.0.1:${tollway.brokerPort}`)
  const push = (sourceServiceId: string, headers?: Readonly<Record<string, string>>) => {
    const call = client.push(headers)
    const ids = { streamId: 'kiosk-1', requestId: `of-${sourceServiceId}`, targetObjectId: 'claire' }
    call.write(encodeHeader({ animationIds: ids, sourceServiceId }))
    call.end()
    return call.answer
  }
  for (const source of ['a2f', 'another', '']) {
    assert.match(await push(source), /^(UNAUTHENTICATED|PERMISSION_DENIED) /, source)
    const foreign = { authorization: 'Bearer change-me-for-consumers' }
    assert.match(await push(source, foreign), /^(UNAUTHENTICATED|PERMISSION_DENIED) /, source)
  }
  // With the token, the rules of the route apply, and it rejects a request without data.
  const own = { authorization: 'Bearer change-me-for-producers' }
  assert.match(await push('a2f', own), /^ERROR /)
})
