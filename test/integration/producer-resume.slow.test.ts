import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { type TestContext, test } from 'node:test'
import { createAnimationClient, type StreamPart } from '../../examples/animation/animation-client.ts'
import { animationServices } from '../../services/broker/servers/grpc-methods.ts'
import {
  type AnimationClient,
  openAnimationClient,
  type PullCall,
  type PushCall,
} from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { openProxy } from '../../services/grpc/server/testing/contract/support.ts'
import { startBackendProxy } from '../support/backend-proxy.ts'
import { type BrokerProcess, startBroker } from '../support/broker-process.ts'
import { startProgram } from '../support/program.ts'
import { startRedis } from '../support/redis-server.ts'
import { findProgram, requireProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

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

async function toProducer(push: PushCall, first?: Uint8Array): Promise<Producer> {
  if (first !== undefined) push.write(first)
  const headers = await push.headers
  return {
    push,
    resume: { 'tollway-resume': headers['tollway-resume'] ?? '' },
    next: Number(headers['tollway-next']),
    send(from, to) {
      for (const text of range(from, to)) push.write(encodeText(text))
    },
    finish() {
      push.write(encodeText('SUCCESS'))
      push.end()
      return push.answer
    },
  }
}

const begin = (client: AnimationClient, requestId: string) =>
  toProducer(client.push(), encodeText('header', requestId))

const proceed = (client: AnimationClient, { resume }: Pick<Producer, 'resume'>) =>
  toProducer(client.push(resume))

const parsePort = ({ address }: BrokerProcess) => Number(address.split(':')[1])

async function connectionIsLost(t: TestContext, broker: BrokerProcess, other: BrokerProcess): Promise<void> {
  const proxy = await openProxy(t, parsePort(broker))
  const pulls = [broker, other].map(({ address }) =>
    openAnimationClient(t, address).pull({ requestId: 'lost' }),
  )
  const first = await begin(openAnimationClient(t, `127.0.0.1:${proxy.port}`), 'lost')
  assert.equal(first.next, 1)
  for (const pull of pulls) await pull.until('header lost')
  first.send(1, 3)
  for (const pull of pulls) await pull.until('3')
  const client = openAnimationClient(t, other.address)
  const taken = openAnimationClient(t, other.address).push()
  taken.write(encodeText('header', 'lost'))
  assert.equal(await taken.answer, 'ALREADY_EXISTS a push with the same ids is running')
  proxy.cut()
  assert.match(await first.push.answer, /^UNAVAILABLE/)
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

const restarted = 'ERROR the producer is gone: it came back without a resume token'

/** The producer begins its request again without a token, and its consumers at all brokers get both runs. */
async function beginsAgain(
  t: TestContext,
  requestId: string,
  { lose, brokers, again, unreachable }: Loss,
): Promise<{ readonly old: PushCall; readonly tookMs: number }> {
  const [first] = brokers
  assert.ok(first !== undefined)
  const proxy = await openProxy(t, parsePort(first))
  const pulls = brokers.map(({ address }) => ({
    one: openAnimationClient(t, address).pull({ requestId }),
    all: openAnimationClient(t, address).pull({ streamId: 's', targetObjectId: 'avatar' }),
  }))
  const { push: old, send } = await begin(openAnimationClient(t, `127.0.0.1:${proxy.port}`), requestId)
  send(1, 3)
  for (const { one } of pulls) await one.until('3')
  await lose(proxy)
  const began = performance.now()
  const next = await begin(openAnimationClient(t, again.address), requestId)
  const tookMs = performance.now() - began
  next.send(1, 2)
  assert.match(await next.finish(), /^SUCCESS 4 messages/)
  for (const [at, { one, all }] of pulls.entries()) {
    if (brokers[at] === unreachable) continue
    assert.equal(await one.end, 'OK')
    const failed = [`header ${requestId}`, '1', '2', '3', restarted]
    const completed = [`header ${requestId}`, '1', '2', 'SUCCESS']
    // A pull at another broker may know the next run before it has the end of the last one.
    const texts = one.texts()
    assert.deepEqual(texts, texts.length === failed.length ? failed : [...failed, ...completed])
    await all.until('SUCCESS')
    assert.deepEqual(all.texts().slice(-9), [...failed, ...completed])
  }
  return { old, tookMs }
}

interface Loss {
  /** The producer is at the first one, and consumers at each. */
  readonly brokers: readonly BrokerProcess[]
  /** Loses the producer, which is connected through the proxy. */
  lose(proxy: Awaited<ReturnType<typeof openProxy>>): unknown
  /** The broker of the next push. */
  readonly again: BrokerProcess
  /** A broker whose consumers get nothing any more. */
  readonly unreachable?: BrokerProcess
}

const statistic = async ({ debug }: BrokerProcess, name: string) => {
  const numbers = await (await fetch(`${debug}/stats?format=json`)).json()
  return (numbers as Readonly<Record<string, number>>)[`broker.${name}`]
}

async function invalidTokensAreRejected(t: TestContext, { address }: BrokerProcess): Promise<void> {
  const client = openAnimationClient(t, address)
  const first = await begin(client, 'rejected')
  const token = first.resume['tollway-resume'] ?? ''
  const [run = '', secret = ''] = [
    token.slice(0, token.lastIndexOf('.')),
    token.slice(token.lastIndexOf('.') + 1),
  ]
  const push = (value: string, more = {}) => client.push({ 'tollway-resume': value, ...more }).answer
  const forged = 'PERMISSION_DENIED the resume token is not one of this request and this bearer token'
  assert.equal(await push(`${run}.${secret.replace(/^./, found => (found === 'A' ? 'B' : 'A'))}`), forged)
  assert.equal(await push(token, { authorization: 'Bearer another' }), forged)
  assert.equal(
    await push(`00000000-0000-0000-0000-000000000000.1.0.${secret}`),
    'NOT_FOUND the run "00000000-0000-0000-0000-000000000000.1" is not kept any more',
  )
  for (const none of ['x', `${run}`, `${token}.`, `${token}${'x'.repeat(8000)}`]) {
    assert.match(await push(none), /^INVALID_ARGUMENT tollway-resume: one token/)
  }
  const long = openAnimationClient(t, address).push({ 'tollway-resume': 'x'.repeat(1_000_000) })
  assert.match(await long.answer, /^RESOURCE_EXHAUSTED/)
  const second = await proceed(openAnimationClient(t, address), first)
  assert.equal(await first.push.answer, 'ABORTED the producer has continued the request in another call')
  const pull = openAnimationClient(t, address).pull({ requestId: 'rejected' })
  await pull.until('header rejected')
  second.send(1, 1)
  await pull.until('1')
  const early = openAnimationClient(t, address).push(second.resume)
  early.write(encodeText('2'))
  early.end()
  assert.match(await early.answer, /^FAILED_PRECONDITION a message came before the answer's tollway-next/)
  assert.match(
    await openAnimationClient(t, address).push(first.resume).answer,
    /^FAILED_PRECONDITION the resume token was used before/,
  )
}

test('a broker in memory: a producer continues after its connection is lost', async t => {
  const broker = await startBroker(t, {})
  await t.test('a producer continues after its connection is lost', t => connectionIsLost(t, broker, broker))
  await t.test('invalid resume tokens are rejected', t => invalidTokensAreRejected(t, broker))
  await t.test('a push without a token ends the lost request', async t => {
    const { tookMs } = await beginsAgain(t, 'again', {
      brokers: [broker],
      lose: proxy => proxy.cut(),
      again: broker,
    })
    assert.ok(tookMs < 4_000, `it took ${tookMs} ms`)
    assert.equal(await statistic(broker, 'producers_restarted'), 1)
  })
})

/** A producer of Python that sends a header and a message, and then waits. */
const pythonProducer = `
import sys, threading, grpc
target, method, *messages = sys.argv[1:]
def requests():
    for message in messages:
        yield bytes.fromhex(message)
    threading.Event().wait()
channel = grpc.insecure_channel(target)
call = channel.stream_unary(method, request_serializer=None, response_deserializer=None)
try:
    call(requests())
except grpc.RpcError as error:
    sys.exit(f"{error.code().name} {error.details()}")
`

test('a producer in Python that is killed begins its request again', async t => {
  const python = findProgram('python3')
  if (python === undefined || spawnSync(python, ['-c', 'import grpc']).status !== 0) {
    assert.notEqual(process.env['REQUIRE_SERVERS'], '1', 'no python3 with grpcio')
    return t.skip('no python3 with grpcio')
  }
  const broker = await startBroker(t, {})
  const pull = openAnimationClient(t, broker.address).pull({ streamId: 's' })
  const produce = () => {
    const sent = [encodeText('header', 'r1'), encodeText('1')].map(bytes =>
      Buffer.from(bytes).toString('hex'),
    )
    const method = `/${animationServices.specified}/PushAnimationDataStream`
    const program = startProgram(python, ['-c', pythonProducer, broker.address, method, ...sent])
    t.after(async () => void (await program.end('SIGKILL')))
    return program
  }
  const first = produce()
  await waitFor('the first run', () => pull.texts().length === 2)
  const second = produce()
  assert.equal(await second.exited(), 1)
  assert.match(second.output(), /^ALREADY_EXISTS a push with the same ids is running/)
  await first.end('SIGKILL')
  produce()
  await waitFor('the second run', () => pull.texts().length === 5)
  assert.deepEqual(pull.texts(), ['header r1', '1', restarted, 'header r1', '1'])
})

test('the client of the examples continues automatically', async t => {
  const broker = await startBroker(t, {})
  const proxy = await openProxy(t, parsePort(broker))
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
  const proxy = await openProxy(t, parsePort(broker))
  const pull = openAnimationClient(t, broker.address).pull({ requestId: 'r1' })
  const push = openAnimationClient(t, `127.0.0.1:${proxy.port}`).push()
  push.write(encodeText('header', 'r1'))
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

  await t.test('a producer continues after its connection is lost', t => connectionIsLost(t, first, second))
  await t.test('invalid resume tokens are rejected', t => invalidTokensAreRejected(t, first))

  await t.test('a push without a token ends the lost request', async t => {
    for (const [requestId, brokers, again] of [
      ['again-here', [first, second], first],
      ['again-there', [first, second], second],
      ['again-back', [second, first], first],
    ] as const) {
      const { tookMs } = await beginsAgain(t, requestId, { brokers, lose: proxy => proxy.cut(), again })
      assert.ok(tookMs < 1_800, `${requestId} took ${tookMs} ms`)
    }
    const counts = await Promise.all([first, second].map(one => statistic(one, 'producers_restarted')))
    assert.deepEqual(counts, [2, 1])
  })

  await t.test('a push without a token ends the request of a broker that was killed', async t => {
    const doomed = await startBroker(t, env)
    const { tookMs } = await beginsAgain(t, 'again-killed', {
      brokers: [doomed, first, second],
      lose: () => doomed.program.end('SIGKILL'),
      again: second,
      unreachable: doomed,
    })
    assert.ok(tookMs < 4_000, `it took ${tookMs} ms`)
  })

  await t.test('a push without a token ends the request of a broker that was stopped', async t => {
    const paused = await startBroker(t, env)
    const consumer = openAnimationClient(t, paused.address).pull({ requestId: 'again-stopped' })
    const { old, tookMs } = await beginsAgain(t, 'again-stopped', {
      brokers: [paused, second],
      lose: () => paused.program.process.kill('SIGSTOP'),
      again: second,
      unreachable: paused,
    })
    assert.ok(tookMs < 4_000, `it took ${tookMs} ms`)
    paused.program.process.kill('SIGCONT')
    old.write(encodeText('4'))
    assert.equal(await old.answer, restarted)
    await waitFor('the end at the broker that was stopped', () => consumer.texts().includes(restarted))
  })

  await t.test('a push without a token ends the request of a broker without a network', async t => {
    const network = await startBackendProxy({ targetPort: redis.port, seed: 1 })
    t.after(() => network.stop())
    const cut = await startBroker(t, { ...env, REDIS_URL: `redis://${network.address}` })
    const { old, tookMs } = await beginsAgain(t, 'again-cut', {
      brokers: [cut, second],
      lose: () => network.setFault({ kind: 'silence' }),
      again: second,
      unreachable: cut,
    })
    assert.ok(tookMs < 4_000, `it took ${tookMs} ms`)
    await network.setFault()
    assert.equal(await old.answer, restarted)
  })

  await t.test('a producer whose connection is half-open is connected', async t => {
    const proxy = await openProxy(t, parsePort(first))
    const half = await begin(openAnimationClient(t, `127.0.0.1:${proxy.port}`), 'half-open')
    proxy.silence()
    for (const { address } of [first, second]) {
      const push = openAnimationClient(t, address).push()
      push.write(encodeText('header', 'half-open'))
      assert.equal(await push.answer, 'ALREADY_EXISTS a push with the same ids is running')
    }
    half.push.cancel()
  })

  await t.test('of two pushes at once, with the token and without, one continues or begins', async t => {
    for (let round = 0; round < 6; round += 1) {
      const requestId = `race-${round}`
      const proxy = await openProxy(t, parsePort(first))
      const lost = await begin(openAnimationClient(t, `127.0.0.1:${proxy.port}`), requestId)
      const pull = openAnimationClient(t, second.address).pull({ requestId })
      await pull.until(`header ${requestId}`)
      proxy.cut()
      const [one, two] = round % 2 === 0 ? [first, second] : [second, first]
      const continued = openAnimationClient(t, one.address).push(lost.resume)
      const begun = openAnimationClient(t, two.address).push()
      begun.write(encodeText('header', requestId))
      const accepted = ({ headers, answer }: PushCall) =>
        Promise.race([headers.then(() => 'accepted'), answer])
      const answers = [await accepted(continued), await accepted(begun)]
      const expected =
        answers[0] === 'accepted'
          ? ['accepted', 'ALREADY_EXISTS a push with the same ids is running']
          : [`FAILED_PRECONDITION the request has ended: ${restarted.slice('ERROR '.length)}`, 'accepted']
      assert.deepEqual(answers, expected)
      const winner = answers[0] === 'accepted' ? continued : begun
      winner.write(encodeText('SUCCESS'))
      winner.end()
      assert.match(await winner.answer, /^SUCCESS/)
    }
  })

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
      const proxy = await openProxy(t, parsePort(first))
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
