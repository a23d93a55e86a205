import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { type BrokerProcess, startBroker } from '../support/broker-process.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkOutPreviousRelease, fileOfPreviousRelease, missingPreviousRelease } from './previous-release.ts'

async function waitingPulls({ debug }: BrokerProcess): Promise<number> {
  const page = await fetch(`${debug}/streams`)
  return ((await page.json()) as { readonly waitingPulls: number }).waitingPulls
}

const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `${from + index}`)

describe('brokers of 0.1.0 and of the current version over one Redis', {
  skip: missingProgram('redis-server') || missingPreviousRelease(),
}, () => {
  let redis: RedisServer
  before(async () => {
    checkOutPreviousRelease()
    redis = await startRedis()
  })
  after(() => redis?.stop())

  const main = { old: fileOfPreviousRelease('services/broker/main.ts'), today: undefined }
  const start = (t: TestContext, version: keyof typeof main) => {
    const env = { STREAM_LOG: 'redis', REDIS_URL: redis.url, RESUME_GRACE: '20s' }
    return startBroker(t, env, undefined, main[version])
  }

  for (const [from, to] of [
    ['old', 'today'],
    ['today', 'old'],
  ] as const) {
    it(`a request continues from ${from} at ${to} when its broker is killed`, async t => {
      const [first, second] = await Promise.all([start(t, from), start(t, to)])
      await goOn(t, first, second, `${from}-to-${to}`)
    })
  }

  /** The first broker gets the push and is killed; the second one has a consumer from the start. */
  async function goOn(
    t: TestContext,
    first: BrokerProcess,
    second: BrokerProcess,
    requestId: string,
  ): Promise<void> {
    const resumable = openAnimationClient(t, first.address).pull(
      { requestId },
      { 'tollway-received': 'none' },
    )
    const watching = openAnimationClient(t, second.address).pull({ requestId })
    // A pull that begins after the push gets only the messages from then on.
    for (const broker of [first, second]) await waitFor('the pull', () => waitingPulls(broker), 60_000)
    const push = openAnimationClient(t, first.address).push()
    push.write(encodeText('header', requestId))
    const { 'tollway-resume': token = '' } = await push.headers
    for (const number of range(1, 5)) push.write(encodeText(number))
    for (const pull of [resumable, watching]) await pull.until('5')
    const run = /^INFO run (\S+), the next is message 1$/.exec(resumable.texts()[1] ?? '')?.[1]

    await first.program.end('SIGKILL')
    assert.match(await push.answer, /^UNAVAILABLE/)
    const client = openAnimationClient(t, second.address)
    // The consumer of the first broker has the header and five messages.
    const resumed = client.pull({ requestId }, { 'tollway-received': `${run}=6` })
    const rest = client.push({ 'tollway-resume': token })
    const next = Number((await rest.headers)['tollway-next'])
    assert.equal(next, 6)
    for (const number of range(next, 10)) rest.write(encodeText(number))
    rest.write(encodeText('SUCCESS'))
    rest.end()
    assert.match(await rest.answer, /^SUCCESS 12 messages/)
    const header = `header ${requestId}`
    assert.equal(await watching.end, 'OK')
    assert.deepEqual(watching.texts(), [header, ...range(1, 10), 'SUCCESS'])
    assert.equal(await resumed.end, 'OK')
    const named = `INFO run ${run}, the next is message 6`
    assert.deepEqual(resumed.texts(), [header, named, ...range(6, 10), 'SUCCESS'])
  }

  it('each serves a request of the other, and rejects a second push of running ids', async t => {
    const brokers = await Promise.all([start(t, 'old'), start(t, 'today')])
    for (const [index, broker] of brokers.entries()) {
      const other = brokers[1 - index] ?? broker
      const requestId = `kept-${index}`
      const push = openAnimationClient(t, broker.address).push()
      push.write(encodeText('header', requestId))
      await push.headers
      const pull = openAnimationClient(t, other.address).pull({ requestId })
      await pull.until(`header ${requestId}`)
      const second = openAnimationClient(t, other.address).push()
      second.write(encodeText('header', requestId))
      assert.match(await second.answer, /^ALREADY_EXISTS/)
      push.write(encodeText('SUCCESS'))
      push.end()
      assert.match(await push.answer, /^SUCCESS 2 messages/)
      assert.equal(await pull.end, 'OK')
      assert.deepEqual(pull.texts(), [`header ${requestId}`, 'SUCCESS'])
    }
  })
})
