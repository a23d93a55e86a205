import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createAnimationClient, type StreamPart } from '../../examples/animation/animation-client.ts'
import {
  type AnimationClient,
  openAnimationClient,
  type PullCall,
  type PushCall,
} from '../../services/broker/servers/testing/animation-client.ts'
import { bytesOf } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { openProxy } from '../../services/grpc/server/testing/contract/support.ts'
import { type BrokerProcess, startBroker } from '../support/broker-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'

/**
 * Producers that lose their connection or their broker and continue their request, with a foreign gRPC
 * client.
 */

const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `${from + index}`)

/** Returns the received time codes: the numbers of their messages. */
const numbers = (pull: PullCall) => pull.texts().filter(text => /^\d+$/.test(text))

interface Producer {
  readonly push: PushCall
  /** The metadata of the producer for the next push. */
  readonly resume: Readonly<Record<string, string>>
  /** The number of the message to send next. */
  readonly next: number
  send(from: number, to: number): void
  finish(): Promise<string>
}

async function producerOf(push: PushCall, first?: Uint8Array): Promise<Producer> {
  if (first !== undefined) push.write(first)
  const headers = await push.headers
  return {
    push,
    resume: { 'tollway-resume': headers['tollway-resume'] ?? '' },
    next: Number(headers['tollway-next']),
    send(from, to) {
      for (const text of range(from, to)) push.write(bytesOf(text))
    },
    finish() {
      push.write(bytesOf('SUCCESS'))
      push.end()
      return push.answer
    },
  }
}

const begin = (client: AnimationClient, requestId: string) =>
  producerOf(client.push(), bytesOf('header', requestId))

const proceed = (client: AnimationClient, { resume }: Pick<Producer, 'resume'>) =>
  producerOf(client.push(resume))

const portOf = ({ address }: BrokerProcess) => Number(address.split(':')[1])

async function connectionIsLost(t: TestContext, broker: BrokerProcess, other: BrokerProcess): Promise<void> {
  const proxy = await openProxy(t, portOf(broker))
  const pulls = [broker, other].map(({ address }) =>
    openAnimationClient(t, address).pull({ requestId: 'lost' }),
  )
  const first = await begin(openAnimationClient(t, `127.0.0.1:${proxy.port}`), 'lost')
  assert.equal(first.next, 1)
  for (const pull of pulls) await pull.until('header lost')
  first.send(1, 3)
  for (const pull of pulls) await pull.until('3')
  proxy.cut()
  assert.match(await first.push.answer, /^UNAVAILABLE/)
  const client = openAnimationClient(t, other.address)
  const taken = openAnimationClient(t, other.address).push()
  taken.write(bytesOf('header', 'lost'))
  assert.equal(await taken.answer, 'ALREADY_EXISTS a push with the same ids is running')
  const second = await proceed(client, first)
  assert.equal(second.next, 4)
  assert.notEqual(second.resume['tollway-resume'], first.resume['tollway-resume'])
  second.send(4, 6)
  assert.match(await second.finish(), /^SUCCESS 8 messages/)
  for (const pull of pulls) {
    assert.equal(await pull.end, 'OK')
    assert.deepEqual(pull.texts(), ['header lost', ...range(1, 6), 'SUCCESS'])
  }
  const late = client.push(second.resume)
  assert.equal(await late.answer, 'FAILED_PRECONDITION the request has ended: completed')
}

async function tokensAreRefused(t: TestContext, { address }: BrokerProcess): Promise<void> {
  const client = openAnimationClient(t, address)
  const first = await begin(client, 'refused')
  const token = first.resume['tollway-resume'] ?? ''
  const [run = '', secret = ''] = [
    token.slice(0, token.lastIndexOf('.')),
    token.slice(token.lastIndexOf('.') + 1),
  ]
  const answerOf = (value: string, more = {}) => client.push({ 'tollway-resume': value, ...more }).answer
  const forged = 'PERMISSION_DENIED the resume token is not one of this request and this bearer token'
  assert.equal(await answerOf(`${run}.${secret.replace(/^./, found => (found === 'A' ? 'B' : 'A'))}`), forged)
  assert.equal(await answerOf(token, { authorization: 'Bearer another' }), forged)
  assert.equal(
    await answerOf(`00000000-0000-0000-0000-000000000000.1.0.${secret}`),
    'NOT_FOUND the run "00000000-0000-0000-0000-000000000000.1" is not kept any more',
  )
  for (const none of ['x', `${run}`, `${token}.`, `${token}${'x'.repeat(8000)}`]) {
    assert.match(await answerOf(none), /^INVALID_ARGUMENT tollway-resume: one token/)
  }
  const long = openAnimationClient(t, address).push({ 'tollway-resume': 'x'.repeat(1_000_000) })
  assert.match(await long.answer, /^RESOURCE_EXHAUSTED/)
  const second = await proceed(openAnimationClient(t, address), first)
  assert.equal(await first.push.answer, 'ABORTED the producer has continued the request in another call')
  const pull = openAnimationClient(t, address).pull({ requestId: 'refused' })
  await pull.until('header refused')
  second.send(1, 1)
  await pull.until('1')
  const early = openAnimationClient(t, address).push(second.resume)
  early.write(bytesOf('2'))
  early.end()
  assert.match(await early.answer, /^FAILED_PRECONDITION a message came before the answer's tollway-next/)
  assert.match(
    await openAnimationClient(t, address).push(first.resume).answer,
    /^FAILED_PRECONDITION the resume token was used before/,
  )
}

test('a broker in memory: a producer continues after its connection is lost', async t => {
  const broker = await startBroker(t, {})
  await t.test('the connection is lost', t => connectionIsLost(t, broker, broker))
  await t.test('rejected tokens', t => tokensAreRefused(t, broker))
})

test('the client of the examples continues automatically', async t => {
  const broker = await startBroker(t, {})
  const proxy = await openProxy(t, portOf(broker))
  const pull = openAnimationClient(t, broker.address).pull({ requestId: 'r1' })
  const client = createAnimationClient(`127.0.0.1:${proxy.port}`, undefined)
  t.after(() => client.close())
  async function* parts(): AsyncGenerator<StreamPart> {
    yield { case: 'animationDataStreamHeader', value: { animationIds: { requestId: 'r1' } } }
    await pull.until('header r1')
    for (let timeCode = 1; timeCode <= 20; timeCode += 1) {
      yield { case: 'animationData', value: { camera: { focalLength: [{ timeCode, value: 35 }] } } }
      if (timeCode % 7 !== 0) continue
      await pull.until(`${timeCode}`)
      proxy.cut()
    }
    yield { case: 'status', value: {} }
  }
  const { message } = await client.push(parts())
  assert.equal(message, '22 messages')
  assert.equal(await pull.end, 'OK')
  assert.deepEqual(pull.texts(), ['header r1', ...range(1, 20), 'SUCCESS'])
})

test('a broker without a grace period gives no token, and ends the request immediately', async t => {
  const broker = await startBroker(t, { RESUME_GRACE: '0s' })
  const proxy = await openProxy(t, portOf(broker))
  const pull = openAnimationClient(t, broker.address).pull({ requestId: 'r1' })
  const push = openAnimationClient(t, `127.0.0.1:${proxy.port}`).push()
  push.write(bytesOf('header', 'r1'))
  await pull.until('header r1')
  proxy.cut()
  assert.equal(await pull.end, 'OK')
  assert.equal(pull.texts().at(-1), 'ERROR the producer is gone: the connection is lost')
})

test('brokers over Redis', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const env = { STREAM_LOG: 'redis', REDIS_URL: redis.url, RESUME_GRACE: '2s' }
  const [first, second] = await Promise.all([startBroker(t, env), startBroker(t, env)])

  await t.test('the connection is lost', t => connectionIsLost(t, first, second))
  await t.test('rejected tokens', t => tokensAreRefused(t, first))

  await t.test('the broker is killed: the producer continues at another one', async t => {
    const doomed = await startBroker(t, env)
    const pull = openAnimationClient(t, second.address).pull({ requestId: 'killed' })
    const before = await begin(openAnimationClient(t, doomed.address), 'killed')
    await pull.until('header killed')
    before.send(1, 5)
    await pull.until('5')
    before.send(6, 50)
    await doomed.program.end('SIGKILL')
    assert.match(await before.push.answer, /^UNAVAILABLE/)
    const after = await proceed(openAnimationClient(t, first.address), before)
    assert.ok(after.next >= 6 && after.next <= 51, `the next is ${after.next}`)
    after.send(after.next, 60)
    assert.match(await after.finish(), /^SUCCESS 62 messages/)
    assert.equal(await pull.end, 'OK')
    assert.deepEqual(pull.texts(), ['header killed', ...range(1, 60), 'SUCCESS'])
  })

  await t.test('a broker that was paused has lost the producer when it resumes', async t => {
    const stopped = await startBroker(t, env)
    const pulls = [stopped, second].map(({ address }) =>
      openAnimationClient(t, address).pull({ requestId: 'stopped' }),
    )
    const before = await begin(openAnimationClient(t, stopped.address), 'stopped')
    for (const pull of pulls) await pull.until('header stopped')
    before.send(1, 5)
    for (const pull of pulls) await pull.until('5')
    stopped.program.process.kill('SIGSTOP')
    before.send(6, 20)
    const after = await proceed(openAnimationClient(t, first.address), before)
    assert.equal(after.next, 6)
    after.send(6, 30)
    await pulls[1]?.until('30')
    stopped.program.process.kill('SIGCONT')
    assert.match(await before.push.answer, /^ABORTED/)
    for (const pull of pulls) await pull.until('30')
    assert.match(await after.finish(), /^SUCCESS 32 messages/)
    for (const pull of pulls) {
      assert.equal(await pull.end, 'OK')
      assert.deepEqual(numbers(pull), range(1, 30))
    }
  })

  await t.test(
    'consumers of a producer that does not return get an ERROR status after the grace period',
    async t => {
      const doomed = await startBroker(t, env)
      const proxy = await openProxy(t, portOf(first))
      const pulls = ['gone', 'killed-for-good'].map(requestId =>
        openAnimationClient(t, second.address).pull({ requestId }),
      )
      const gone = await begin(openAnimationClient(t, `127.0.0.1:${proxy.port}`), 'gone')
      const killed = await begin(openAnimationClient(t, doomed.address), 'killed-for-good')
      await pulls[0]?.until('header gone')
      await pulls[1]?.until('header killed-for-good')
      proxy.cut()
      await doomed.program.end('SIGKILL')
      for (const pull of pulls) assert.equal(await pull.end, 'OK')
      assert.deepEqual(
        pulls.map(pull => pull.texts().at(-1)),
        [
          'ERROR the producer is gone: the connection is lost, and it did not come back for 2 s',
          "ERROR the producer's broker was lost",
        ],
      )
      for (const { resume } of [gone, killed]) {
        const { answer } = openAnimationClient(t, second.address).push(resume)
        assert.match(await answer, /^FAILED_PRECONDITION the request has ended: /)
      }
    },
  )
})
