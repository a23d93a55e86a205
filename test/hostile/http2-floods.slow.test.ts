import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { errorCodes } from '../../services/grpc/http2/frames/frames.ts'
import { rssMiB } from '../bench/process-usage.ts'
import { startBroker } from '../support/broker-process.ts'
import { waitFor } from '../support/wait-for.ts'
import { attack } from './attacker.ts'
import { type FloodName, floods } from './floods.ts'
import { type ServiceUnderAttack, startUnderAttack } from './service-under-attack.ts'

const noRule = { domain: 'd', descriptors: [{ entries: [{ key: 'none', value: '' }] }] }
/** Sequential calls of another caller during a flood. */
const calls = 50
/** The growth of all floods together: the memory of their 12,000 calls is collected late. */
const maxGrowthMiB = 128
/** The most frames of each connection; it may send 2,000 and those that it has earned with 990 calls. */
const maxFrames = 10_000
/** These frames belong to calls, and cause no more work than calls do. */
const accepted: readonly FloodName[] = ['calls that are reset', 'header fields that are always new']

test('a flood of long header lists ends only its connection to a broker', async t => {
  const { address } = await startBroker(t, {})
  const over = Promise.withResolvers<void>()
  t.after(() => over.resolve())
  const port = Number(address.split(':')[1])
  const { goAways, frames } = attack(floods['header lists of 64 MB'], port, over.promise, {
    maxFrames: 1_000,
  })
  await waitFor('the end of the connection', () => goAways.length > 0 || frames() >= 1_000)
  const push = openAnimationClient(t, address).push()
  for (const text of ['header', 'SUCCESS']) push.write(encodeText(text, 'r1'))
  push.end()
  assert.match(await push.answer, /^SUCCESS/)
  assert.deepEqual(goAways, [errorCodes.ENHANCE_YOUR_CALM])
})

test('floods on many connections leave little memory behind', async t => {
  const { process, caller } = await startUnderAttack(t)
  for (let call = 0; call < 1000; call++) await caller.shouldRateLimit(noRule)
  const rssBefore = rssMiB(process.program.pid)
  const over = Promise.withResolvers<void>()
  t.after(() => over.resolve())
  const { goAways } = attack(floods['SETTINGS, other windows'], process.grpcPort, over.promise, {
    reconnectMs: 1,
  })
  await waitFor('many floods', () => goAways.length >= 60, 60_000)
  over.resolve()
  for (let call = 0; call < 1000; call++) await caller.shouldRateLimit(noRule)
  const growth = rssMiB(process.program.pid) - rssBefore
  assert.ok(growth < 36, `the service uses ${growth} MiB more`)
})

describe('a flood ends only its connection', () => {
  let service: ServiceUnderAttack
  let rssBefore = 0
  const ending: (() => Promise<unknown>)[] = []
  before(async () => {
    service = await startUnderAttack({ after: end => void ending.unshift(end) })
    for (let call = 0; call < 1000; call++) await ask()
    rssBefore = rssMiB(service.process.program.pid)
  })
  after(async () => {
    for (const end of ending) await end()
  })

  const ask = () => service.caller.shouldRateLimit(noRule)

  for (const [name, flood] of Object.entries(floods)) {
    test(name, async () => {
      const over = Promise.withResolvers<void>()
      const isAccepted = accepted.includes(name as FloodName)
      const { goAways, frames } = attack(flood, service.process.grpcPort, over.promise, {
        maxFrames: isAccepted ? 500 : maxFrames,
      })
      try {
        await waitFor('the flood', () => goAways.length > 0 || (isAccepted && frames() >= 500))
        for (let call = 0; call < calls; call++) await ask()
      } finally {
        over.resolve()
      }
      assert.deepEqual([...new Set(goAways)], isAccepted ? [] : [errorCodes.ENHANCE_YOUR_CALM])
      const growth = rssMiB(service.process.program.pid) - rssBefore
      assert.ok(growth < maxGrowthMiB, `the service uses ${growth} MiB more`)
      await service.check()
    })
  }
})
