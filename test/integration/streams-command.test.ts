import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import {
  type AnimationClient,
  openAnimationClient,
} from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { encodeHeader } from '../../services/broker/wire/testing/encode-messages.ts'
import { type BrokerProcess, startBroker } from '../support/broker-process.ts'
import { makeCertificate } from '../support/certificate.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

/** Tests `tollway streams` with running brokers, and with producers and consumers on separate connections. */

const places = (brokers: readonly BrokerProcess[]) => brokers.flatMap(({ debug }) => ['--address', debug])

/** Runs the command in this process, which saves its start. */
async function said(args: readonly string[], ...brokers: readonly BrokerProcess[]) {
  let output = ''
  const print = (text: string) => {
    output += text
  }
  const code = await runTollway(['streams', ...args, ...places(brokers)], { print, printError: print })
  return { code, output }
}

const connect = (t: TestContext, { address }: BrokerProcess): AnimationClient =>
  openAnimationClient(t, address)

/** Starts a producer, which sends a header, and a consumer, maybe at another broker, which receives it. */
async function open(t: TestContext, requestId: string, from: BrokerProcess, to = from) {
  const consumer = connect(t, to).pull({ requestId })
  const producer = connect(t, from).push()
  producer.write(encodeText('header', requestId))
  await consumer.until(`header ${requestId}`)
  return { consumer, producer }
}

test('streams of one broker', async t => {
  const broker = await startBroker(t, {})

  await t.test('are listed while they run', async t => {
    const { producer, consumer } = await open(t, 'r1', broker)
    const { code, output } = await said(['list', '-o', 'json'], broker)
    assert.equal(code, 0, output)
    const [row] = JSON.parse(output).requests
    const { streamId, requestId, targetObjectId, sourceServiceId, route, state } = row
    assert.deepEqual(
      [streamId, requestId, targetObjectId, sourceServiceId, route, state],
      ['s', 'r1', 'avatar', 'source', 'default', 'running'],
    )
    assert.deepEqual([row.producers.length, row.consumers.length, row.messagesBehind], [1, 1, 0])
    assert.deepEqual([row.messages, row.bytes], [1, encodeText('header', 'r1').length])
    for (const text of ['1', 'SUCCESS']) producer.write(encodeText(text))
    producer.end()
    assert.equal(await consumer.end, 'OK')
    assert.deepEqual(JSON.parse((await said(['list', '-o', 'json'], broker)).output).requests, [])
    assert.match(
      (await said(['list', '--all'], broker)).output,
      /^s +r1 +avatar +default +ended completed +0 +0/m,
    )
    const [ended] = JSON.parse((await said(['list', '--all', '-o', 'json'], broker)).output).requests
    assert.deepEqual([ended.producers, ended.messages], [[], 3])
  })

  await t.test('are watched in lines, until Ctrl-C', async t => {
    const args = ['streams', 'watch', '--every', '0.1', ...places([broker])]
    const watch = startProgram(process.execPath, [programs.tollway, ...args])
    t.after(() => watch.end('SIGKILL'))
    const { producer } = await open(t, 'r2', broker)
    const name = 'Z stream "s" request "r2" object "avatar":'
    await watch.said(new RegExp(`${name} running, route default, producers 1`))
    producer.cancel()
    await watch.said(new RegExp(`${name} ended lost: ERROR the producer [^,]+, producers 1 -> 0`))
    assert.equal(await watch.end('SIGINT'), 0)
  })

  await t.test('are interrupted by request', async t => {
    const { producer, consumer } = await open(t, 'r3', broker)
    const other = await open(t, 'r4', broker)
    const outcome = await said(['interrupt', 's', 'r3'], broker)
    assert.deepEqual(outcome, { code: 0, output: '1 running request was interrupted\n' })
    assert.equal(await producer.answer, 'INFO interrupted')
    assert.equal(await consumer.end, 'OK')
    assert.equal(consumer.texts().at(-1), 'INFO interrupted')
    assert.match((await said(['interrupt', 's', 'r3'], broker)).output, /^0 .* has not begun/)
    const again = connect(t, broker).push()
    again.write(encodeText('header', 'r3'))
    assert.match(await again.answer, /^FAILED_PRECONDITION/)
    other.producer.cancel()
  })

  await t.test('are interrupted with ids of any characters', async t => {
    for (const [streamId, requestId] of [
      ['a/b%2F?#', '..'],
      ['', 'r6'],
      ['😀'.repeat(100), '\u{1b}[2J\n'],
    ] as const) {
      const producer = connect(t, broker).push()
      const consumer = connect(t, broker).pull({ streamId, requestId })
      producer.write(encodeHeader({ animationIds: { streamId, requestId, targetObjectId: '' } }))
      await consumer.until(`header ${requestId}`)
      const { output } = await said(['list'], broker)
      assert.ok(!output.includes('\u{1b}'), 'control characters are not printed')
      assert.equal((await said(['interrupt', streamId, requestId], broker)).code, 0)
      assert.equal(await producer.answer, 'INFO interrupted')
    }
  })
})

test('the admin API lists and interrupts over TLS the requests of all brokers on one Redis', async t => {
  if (requireProgram(t, 'redis-server') === false || requireProgram(t, 'openssl') === false) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const folder = temporaryFolder('admin')
  const { certFile, keyFile } = await makeCertificate(folder, 'admin', 'IP:127.0.0.1')
  const tokens = join(folder, 'tokens')
  writeFileSync(tokens, 'a-token-for-the-controller\n')
  const [adminPort = 0] = await freePorts(1)
  const env = { STREAM_LOG: 'redis', REDIS_URL: redis.url }
  const tls = { GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: certFile, GRPC_SERVER_TLS_KEY: keyFile }
  const admin = { ADMIN_PORT: `${adminPort}`, ADMIN_TOKEN_FILE: tokens }
  const [first] = await Promise.all([startBroker(t, env), startBroker(t, { ...env, ...tls, ...admin })])
  const { producer } = await open(t, 'r1', first)
  const addressOptions = [
    '--address',
    `https://127.0.0.1:${adminPort}`,
    '--token-file',
    tokens,
    '--ca',
    certFile,
  ]
  const list = await waitFor('the request', async () => {
    const { output } = await said(['list', '-o', 'json', ...addressOptions])
    return JSON.parse(output).requests[0]
  })
  assert.equal(list.requestId, 'r1')
  assert.match((await said(['list', ...addressOptions.slice(0, 2), '--ca', certFile])).output, /answers 401/)
  const { code, output } = await said(['interrupt', 's', 'r1', ...addressOptions])
  assert.deepEqual([code, output], [0, '1 running request was interrupted\n'])
  assert.equal(await producer.answer, 'INFO interrupted')
})

test('a request over Redis is one row, and is interrupted through any broker', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const env = { STREAM_LOG: 'redis', REDIS_URL: redis.url }
  const [first, second] = await Promise.all([startBroker(t, env), startBroker(t, env)])
  const { producer } = await open(t, 'r1', first, second)
  const { output } = await said(['list', '-o', 'json'], first, second)
  const [row, ...more] = JSON.parse(output).requests
  assert.deepEqual([row.producers.length, row.consumers.length, more], [1, 1, []])
  const interrupted = await said(['interrupt', 's'], second, first)
  assert.deepEqual(interrupted, { code: 0, output: '1 running request was interrupted\n' })
  assert.equal(await producer.answer, 'INFO interrupted')
})
