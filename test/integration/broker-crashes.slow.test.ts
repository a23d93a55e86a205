import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openAnimationClient, type PullCall } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { type BrokerProcess, startBroker } from '../support/broker-process.ts'
import { freePorts } from '../support/free-ports.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

/** The number of kills of a broker; each time its consumers continue at the other one. */
const kills = process.env['SOAK'] === '1' ? 100 : 3

/**
 * Starts a producer at one broker, which sends its header, and a consumer at another one, which receives it.
 */
async function stream(t: TestContext, producing: BrokerProcess, consuming: BrokerProcess, requestId: string) {
  const consumer = openAnimationClient(t, consuming.address).pull(
    { requestId },
    { 'tollway-received': 'none' },
  )
  const producer = openAnimationClient(t, producing.address).push()
  producer.write(encodeText('header', requestId))
  const run = await waitFor(`the run of ${requestId}`, () => findRun(consumer))
  return { consumer, producer, run }
}

const findRun = (consumer: PullCall) =>
  consumer.texts()[1]?.match(/^INFO run (\S+), the next is message 1$/)?.[1]

/** Returns the received time codes, which are the numbers of the messages. */
const numbers = (consumer: PullCall) => consumer.texts().filter(text => /^\d+$/.test(text))
const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `${from + index}`)

async function startTwo(t: TestContext) {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const env = { STREAM_LOG: 'redis', REDIS_URL: redis.url }
  const [first, second] = await Promise.all([startBroker(t, env), startBroker(t, env)])
  return { redis, env, first, second }
}

test('the callers of a killed broker get UNAVAILABLE, and its successor serves the same ids', async t => {
  const ports = (await freePorts(2)) as [number, number]
  const broker = await startBroker(t, {}, ports)
  const { consumer, producer } = await stream(t, broker, broker, 'r1')
  await broker.program.end('SIGKILL')
  assert.match(await consumer.end, /^UNAVAILABLE/)
  assert.match(await producer.answer, /^UNAVAILABLE/)
  const next = await startBroker(t, {}, ports)
  const again = await stream(t, next, next, 'r1')
  again.producer.write(encodeText('SUCCESS'))
  again.producer.end()
  assert.equal(await again.consumer.end, 'OK')
  assert.match(await again.producer.answer, /^SUCCESS/)
})

test('brokers over Redis', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const { redis, env, first, second } = await startTwo(t)

  await t.test(
    'consumers at other brokers get an ERROR status when the broker of the producer is killed',
    async () => {
      const doomed = await startBroker(t, env)
      const { consumer, producer } = await stream(t, doomed, second, 'lost')
      producer.write(encodeText('1'))
      await consumer.until('1')
      await doomed.program.end('SIGKILL')
      assert.match(await producer.answer, /^UNAVAILABLE/)
      assert.equal(await consumer.end, 'OK')
      assert.match(consumer.texts().at(-1) ?? '', /^ERROR /)
      assert.deepEqual(numbers(consumer), ['1'])
    },
  )

  await t.test(
    'a consumer resumes at another broker at its position, after each of several kills',
    async () => {
      const ports = (await freePorts(2)) as [number, number]
      let doomed = await startBroker(t, env, ports)
      const { consumer, producer, run } = await stream(t, first, doomed, 'resumed')
      const received: string[] = []
      let reading = consumer
      let sent = 0
      for (let kill = 0; kill < kills; kill++) {
        for (const number of range(sent + 1, sent + 5)) producer.write(encodeText(number))
        sent += 5
        await reading.until(`${sent}`)
        received.push(...numbers(reading))
        const killed = doomed.program.end('SIGKILL')
        for (const number of range(sent + 1, sent + 5)) producer.write(encodeText(number))
        sent += 5
        await killed
        const at = kill % 2 === 0 ? second : first
        const metadata = { 'tollway-received': `${run}=${1 + received.length}` }
        reading = openAnimationClient(t, at.address).pull({ requestId: 'resumed' }, metadata)
        await reading.until(`${sent}`)
        received.push(...numbers(reading))
        reading.cancel()
        doomed = await startBroker(t, env, ports)
        const again = { 'tollway-received': `${run}=${1 + received.length}` }
        reading = openAnimationClient(t, doomed.address).pull({ requestId: 'resumed' }, again)
      }
      producer.write(encodeText('SUCCESS'))
      producer.end()
      assert.equal(await reading.end, 'OK')
      assert.match(await producer.answer, /^SUCCESS/)
      assert.deepEqual(received, range(1, sent))
    },
  )

  await t.test(
    'after the loss of the data of Redis every call ends with an error, and the next succeed',
    async () => {
      const { consumer, producer } = await stream(t, first, second, 'emptied')
      await redis.kill('SIGKILL')
      producer.write(encodeText('1'))
      await redis.restart()
      await consumer.end
      assert.match(consumer.texts().at(-1) ?? '', /^ERROR /)
      assert.match(await producer.answer, /^ERROR|^UNAVAILABLE/)
      await waitFor('both brokers to reach Redis', async () => {
        const answers = await Promise.all([first, second].map(({ debug }) => fetch(`${debug}/stats`)))
        const texts = await Promise.all(answers.map(answer => answer.text()))
        return texts.every(text => text.includes('broker.log.healthy: 1\n'))
      })
      const next = await stream(t, first, second, 'after')
      next.producer.write(encodeText('SUCCESS'))
      next.producer.end()
      assert.equal(await next.consumer.end, 'OK')
    },
  )
})
