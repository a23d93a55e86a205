import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { Client, credentials } from '@grpc/grpc-js'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { healthCheckPath } from '@tollway/grpc/server/health.ts'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import { makeCertificate } from '../../test/support/certificate.ts'
import { missingProgram } from '../../test/support/require-server.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { startServer } from '../xds-client/testing/management-server.ts'
import { routeTypeUrl } from './routes/route-table.ts'
import { animationServices } from './servers/grpc-methods.ts'
import { openAnimationClient } from './servers/testing/animation-client.ts'
import { startService } from './service.ts'
import { settings } from './settings.ts'
import { encodeText } from './streams/testing/simulation-under-test.ts'
import { encodeHeader } from './wire/testing/encode-messages.ts'

const quick = {
  GRPC_HOST: '127.0.0.1',
  GRPC_PORT: '0',
  DEBUG_HOST: '127.0.0.1',
  DEBUG_PORT: '0',
  DRAIN_DELAY: '0',
  DRAIN_TIMEOUT: '50ms',
}

/** Starts the whole service with these environment variables. */
async function start(t: TestContext, env: Readonly<Record<string, string>> = {}) {
  const read = readSettings(settings, { ...quick, ...env }, () => '')
  assert.ok('value' in read)
  const service = await startService(read.value, silentLog)
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= service.stop()
    return stopping
  }
  t.after(stop)
  assert.ok('port' in service.grpc)
  const target = `127.0.0.1:${service.grpc.port}`
  const debug = `http://127.0.0.1:${service.debugPort}`
  return { target, debug, stop, open: () => openAnimationClient(t, target) }
}

test('pulled messages are equal to the pushed bytes', async t => {
  const { open } = await start(t)
  const pull = open().pull({ streamId: 's', requestId: 'r1' })
  const push = open().push()
  // The fields 4 of the data and 99 of the message are unknown to the schema.
  const unknown = Buffer.from([0x12, 0x03, 0x22, 0x01, 0x07, 0x9a, 0x06, 0x02, 0x68, 0x69])
  const sent = [encodeText('header', 'r1'), unknown, encodeText('1'), encodeText('SUCCESS')]
  for (const bytes of sent) push.write(bytes)
  push.end()
  assert.match(await push.answer, /^SUCCESS 4 messages/)
  assert.equal(await pull.end, 'OK')
  assert.deepEqual(
    pull.messages.map(bytes => Buffer.from(bytes).toString('hex')),
    sent.map(bytes => Buffer.from(bytes).toString('hex')),
  )
})

test('a consumer continues after a lost connection', async t => {
  const { open } = await start(t)
  const first = open().pull({ streamId: 's' }, { 'tollway-received': 'none' })
  const push = open().push()
  for (const text of ['header', '1', '2']) push.write(encodeText(text, 'r1'))
  await first.until('2')
  first.cancel()
  for (const text of ['3', '4']) push.write(encodeText(text))
  const run = first.texts()[1]?.match(/^INFO run (\S+), the next is message 1$/)?.[1]
  const second = open().pull({ streamId: 's' }, { 'tollway-received': `${run}=3` })
  await second.until('4')
  assert.deepEqual(second.texts(), ['header r1', `INFO run ${run}, the next is message 3`, '3', '4'])
})

test('consumers get an error if the producer loses its connection', async t => {
  const { open } = await start(t)
  const pull = open().pull({ requestId: 'r1' })
  const push = open().push()
  push.write(encodeText('header', 'r1'))
  await pull.until('header r1')
  push.cancel()
  assert.equal(await pull.end, 'OK')
  // Callers on Node half-close a call just before they cancel it.
  assert.match(pull.texts().at(-1) ?? '', /^ERROR the producer (is gone|ended without a status)/)
})

test('requests are listed and interrupted at the debug port', async t => {
  const { open, debug } = await start(t)
  const pull = open().pull({ requestId: 'r 1' })
  const push = open().push()
  push.write(encodeText('header', 'r 1'))
  await pull.until('header r 1')
  const { streams } = (await (await fetch(`${debug}/streams`)).json()) as { streams: { requestId: string }[] }
  assert.deepEqual(
    streams.map(({ requestId }) => requestId),
    ['r 1'],
  )
  const page = await (await fetch(`${debug}/streams`, { headers: { accept: 'text/html' } })).text()
  assert.match(page, /<td>r 1<\/td>/)
  const answer = await fetch(`${debug}/streams/s/requests/r%201`, { method: 'DELETE' })
  assert.deepEqual(await answer.json(), { interrupted: 1 })
  assert.equal(await push.answer, 'INFO interrupted')
  assert.equal(await pull.end, 'OK')
  assert.equal(pull.texts().at(-1), 'INFO interrupted')
  const again = open().push()
  again.write(encodeText('header', 'r 1'))
  assert.match(await again.answer, /^FAILED_PRECONDITION/)
})

test('an empty segment interrupts a request without a stream id, but not all of them', async t => {
  const { open, debug } = await start(t)
  const push = open().push()
  push.write(encodeHeader({ animationIds: { streamId: '', requestId: 'r1', targetObjectId: '' } }))
  await waitFor('the request', async () => {
    const { total } = (await (await fetch(`${debug}/streams`)).json()) as { total: number }
    return total === 1
  })
  const interrupt = (path: string) => fetch(`${debug}${path}`, { method: 'DELETE' })
  for (const path of ['/streams', '/streams/', '/streams//requests/', '/streams/s/requests/r1/x']) {
    assert.equal((await interrupt(path)).status, 404, path)
  }
  assert.deepEqual(await (await interrupt('/streams//requests/r1')).json(), { interrupted: 1 })
  assert.equal(await push.answer, 'INFO interrupted')
})

test('running requests can end while the service stops, and new ones are rejected', async t => {
  const { open, stop } = await start(t, { DRAIN_TIMEOUT: '20s' })
  const waiting = open().pull({ streamId: 'other' })
  const client = open()
  const pull = client.pull({ requestId: 'r1' })
  const push = open().push()
  push.write(encodeText('header', 'r1'))
  await pull.until('header r1')
  const stopped = stop()
  assert.match(await waiting.end, /^UNAVAILABLE the broker is shutting down/)
  const late = open().push()
  late.write(encodeText('header', 'r2'))
  assert.match(await late.answer, /^UNAVAILABLE/)
  push.write(encodeText('SUCCESS'))
  push.end()
  assert.match(await push.answer, /^SUCCESS/)
  assert.equal(await pull.end, 'OK')
  await stopped
})

test('requests that still run after the drain time end with an error', async t => {
  const { open, stop } = await start(t)
  const pull = open().pull({ requestId: 'r1' })
  const push = open().push()
  push.write(encodeText('header', 'r1'))
  await pull.until('header r1')
  await stop()
  assert.equal(await push.answer, 'ERROR shutting down')
  assert.equal(await pull.end, 'OK')
  assert.equal(pull.texts().at(-1), 'ERROR shutting down')
})

test('the service is healthy by gRPC and HTTP, until it stops', async t => {
  const { target, debug, stop, open } = await start(t, { DRAIN_DELAY: '300ms' })
  const client = new Client(target, credentials.createInsecure())
  t.after(() => client.close())
  const identity = (bytes: Buffer) => bytes
  const name = animationServices.specified
  const request = Buffer.concat([Buffer.from([0x0a, name.length]), Buffer.from(name)])
  const check = () =>
    new Promise(resolve => {
      client.makeUnaryRequest(healthCheckPath, identity, identity, request, (error, bytes) =>
        resolve(error?.code ?? bytes?.toString('hex')),
      )
    })
  assert.equal(await check(), '0801')
  assert.equal((await fetch(`${debug}/healthcheck`)).status, 200)
  const pull = open().pull({ streamId: 's' })
  stop()
  await waitFor('NOT_SERVING', async () => (await check()) === '0802')
  const unhealthy = await fetch(`${debug}/healthcheck`)
  assert.deepEqual([unhealthy.status, await unhealthy.text()], [500, 'is ending\n'])
  assert.equal((await fetch(`${debug}/livez`)).status, 200)
  assert.equal((await fetch(`${debug}/healthcheck?draining=ok`)).status, 200, 'it accepts calls')
  await pull.end
})

test('the statistics count requests and messages', async t => {
  const { open, debug } = await start(t)
  const pull = open().pull({ requestId: 'r1' })
  const push = open().push()
  for (const text of ['header', '1', 'SUCCESS']) push.write(encodeText(text, 'r1'))
  push.end()
  await push.answer
  await pull.end
  await open().pull({}).end
  const numbers = (await (await fetch(`${debug}/stats?format=json`)).json()) as Record<string, number>
  const expected = {
    'broker.messages_in': 3,
    'broker.messages_out': 3,
    'broker.pushes': 1,
    'broker.requests_served': 1,
    'broker.route.default.messages_in': 3,
    'broker.errors.pull.INVALID_ARGUMENT': 1,
    'broker.streams.active': 0,
    'broker.time_to_first_message_ms.count': 1,
  }
  for (const [name, value] of Object.entries(expected)) assert.equal(numbers[name], value, name)
  const lines = (await (await fetch(`${debug}/stats`)).text()).trimEnd().split('\n')
  assert.deepEqual(lines, [...lines].sort())
  const metrics = await (await fetch(`${debug}/metrics`)).text()
  assert.match(metrics, /^tollway_broker_messages_in_total\{route="default"\} 3$/m)
  assert.match(metrics, /^tollway_broker_time_to_first_message_ms_bucket\{route="default",le="\+Inf"\} 1$/m)
})

test('with a feed, calls are accepted after the first routes, which apply to them', async t => {
  const operator = await startServer(t)
  const tokenHashes = [createHash('sha256').update('secret').digest()]
  const encode = (route: MessageInitShape<typeof StreamRouteSchema>) => ({
    typeUrl: routeTypeUrl,
    value: toBinary(StreamRouteSchema, create(StreamRouteSchema, route)),
  })
  const match = { streamIdPrefix: 'kiosk-', sourceServiceId: 'a2f' }
  const kiosk = { name: 'shop/kiosk', match, tokenHashes: [createHash('sha256').update('kiosk').digest()] }
  const stream = operator.stream(0)
  stream.then(feed => {
    const resources = [encode({ name: 'shop/a', tokenHashes }), encode(kiosk)]
    feed.send({ versionInfo: 'v1', typeUrl: routeTypeUrl, nonce: 'n', resources })
  })
  const { open, debug } = await start(t, { ROUTES: 'feed', CONFIG_GRPC_XDS_SERVER_URL: operator.address })
  const without = open().push()
  without.write(encodeText('header', 'r1'))
  assert.equal(await without.answer, 'UNAUTHENTICATED the route shop/a requires a bearer token')
  const token = { authorization: 'Bearer secret' }
  const animationIds = { streamId: 'kiosk-1', requestId: 'r2', targetObjectId: '' }
  const claiming = open().push(token)
  claiming.write(encodeHeader({ animationIds, sourceServiceId: 'another' }))
  assert.equal(await claiming.answer, 'PERMISSION_DENIED the route shop/kiosk does not accept this token')
  const pull = open().pull({ streamId: 's' }, token)
  open().push(token).write(encodeText('header', 'r1'))
  await pull.until('header r1')
  const { streams } = (await (await fetch(`${debug}/streams`)).json()) as { streams: { route: string }[] }
  assert.deepEqual(
    streams.map(({ route }) => route),
    ['shop/a'],
  )
})

test('streams work over TLS, and callers without TLS are rejected', async t => {
  const missing = missingProgram('openssl')
  if (missing) return t.skip(missing)
  const folder = temporaryFolder('broker-tls')
  const { certFile, keyFile, cert } = await makeCertificate(folder, 'broker', 'DNS:localhost')
  const { target, open } = await start(t, {
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: certFile,
    GRPC_SERVER_TLS_KEY: keyFile,
  })
  const tls = openAnimationClient(t, target.replace('127.0.0.1', 'localhost'), {
    tls: credentials.createSsl(Buffer.from(cert)),
  })
  const pull = tls.pull({ requestId: 'r1' })
  const push = tls.push()
  for (const text of ['header', '1', 'SUCCESS']) push.write(encodeText(text, 'r1'))
  push.end()
  assert.match(await push.answer, /^SUCCESS/)
  assert.equal(await pull.end, 'OK')
  assert.deepEqual(pull.texts(), ['header r1', '1', 'SUCCESS'])
  assert.match(await open().pull({ streamId: 's' }).end, /^UNAVAILABLE/)
})

test('the debug server, which can interrupt streams, is on the loopback address by default', () => {
  const read = readSettings(settings, {}, () => '')
  assert.ok('value' in read)
  assert.equal(read.value.debugHost, '127.0.0.1')
})
