import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { callBudgets } from '../support/call-budgets.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

/** `ROUNDS=1000 node --test test/integration/budgets.slow.test.ts` is the long form. */
const rounds = Number(process.env['ROUNDS'] ?? 8)
const budget = 100
const estimate = 7
const admitted = Math.floor(budget / estimate)
const callers = 100

/** How long a caller repeats a call whose outcome it does not know. */
const patienceMs = 30_000

/** Starts two pods on a Redis with an append-only file. */
async function start(t: TestContext) {
  const redis = await startRedis(['--appendonly', 'yes'])
  t.after(() => redis.stop())
  const env = {
    ...{ BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: `127.0.0.1:${redis.port}` },
    ...rateLimitFiles(userLimit(`${budget}/year`)).env,
  }
  const startPod = async () => {
    const service = await startRateLimit(t, env)
    await service.serves()
    return { service, ...callBudgets(t, service.grpcPort), ...callRateLimit(t, service.grpcPort) }
  }
  const pods = await Promise.all([startPod(), startPod()])
  const podOf = (number: number) => pods[number % pods.length] ?? assert.fail()

  /** Repeats a call at one pod after the other until its outcome is known. */
  function untilAnswered<T>(first: number, call: (pod: ReturnType<typeof podOf>) => Promise<T>): Promise<T> {
    let number = first
    return waitFor('an answer', () => call(podOf(number++)), patienceMs)
  }

  return {
    untilAnswered,
    async restartPod(number: number) {
      await podOf(number).service.program.end('SIGKILL')
      pods[number % pods.length] = await startPod()
    },
    async restartRedis() {
      await redis.kill('SIGKILL')
      await redis.restart()
    },
  }
}

type Opened = Awaited<ReturnType<typeof start>>

const descriptorOf = (user: string) => ({ entries: [{ key: 'user', value: user }] })

/** Returns the id of the reservation; undefined if it was rejected. */
async function reserve({ untilAnswered }: Opened, user: string, caller: number, seconds: bigint) {
  const { result } = await untilAnswered(caller, pod =>
    pod.reserve({
      domain: 'shop',
      descriptor: descriptorOf(user),
      amount: BigInt(estimate),
      ttl: { seconds },
      requestId: `caller ${caller}`,
    }),
  )
  return result.case === 'reservation' ? result.value.id : undefined
}

/** Returns how many of these hits ShouldRateLimit would admit now, without counting one. */
async function remainingOf({ untilAnswered }: Opened, user: string): Promise<number> {
  const descriptors = [{ ...descriptorOf(user), hitsAddend: 0n }]
  const { statuses } = await untilAnswered(0, pod => pod.shouldRateLimit({ domain: 'shop', descriptors }))
  return statuses[0]?.code === Code.OK ? statuses[0].limitRemaining : 0
}

const faults = {
  none: async () => {},
  'Redis killed': ({ restartRedis }: Opened) => restartRedis(),
  'a pod killed': ({ restartPod }: Opened, round: number) => restartPod(round),
  'both killed': async ({ restartRedis, restartPod }: Opened, round: number) => {
    await Promise.all([restartRedis(), restartPod(round)])
  },
} as const

test(`${callers} callers get exactly the budget, whatever is killed meanwhile`, async t => {
  if (!requireProgram(t, 'redis-server')) return
  const opened = await start(t)
  for (let round = 0; round < rounds; round++) {
    const user = `user ${round}`
    const [name, fault] = Object.entries(faults)[round % 4] ?? assert.fail()
    const told = `round ${round}, ${name}`
    const numbers = Array.from({ length: callers }, (_, caller) => caller)
    const asking = Promise.all(numbers.map(caller => reserve(opened, user, caller, 60n)))
    await fault(opened, round)
    const ids = (await asking).flatMap(id => (id === undefined ? [] : [id]))
    assert.equal(ids.length, admitted, told)
    assert.equal(new Set(ids).size, admitted, told)
    assert.equal(await remainingOf(opened, user), budget - admitted * estimate, told)
    const committing = Promise.all(
      ids.map((id, index) =>
        opened.untilAnswered(index, pod => pod.commit({ id, actual: BigInt(index % 9) })),
      ),
    )
    if (round % 8 >= 4) await fault(opened, round + 1)
    await committing
    const used = ids.reduce((sum, _, index) => sum + (index % 9), 0)
    assert.equal(await remainingOf(opened, user), budget - used, told)
  }
})

test('what a killed pod and its callers have reserved returns to all, also without another reservation', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const opened = await start(t)
  const ids = await Promise.all(
    Array.from({ length: 20 }, (_, caller) => reserve(opened, 'alice', caller, 2n)),
  )
  assert.equal(ids.filter(id => id !== undefined).length, admitted)
  await opened.restartPod(0)
  await opened.restartPod(1)
  await waitFor('the amounts to return', async () => (await remainingOf(opened, 'alice')) === budget, 20_000)
})
