import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { startProgram } from '../support/program.ts'
import { waitFor } from '../support/wait-for.ts'
import type { Period } from './load.ts'
import { relayProgram } from './relay.ts'
import { callRelay, relayPort, streamThroughRelay, uncoveredMs } from './relay-client.ts'

const period = (beginMs: number, endMs: number): Period => ({ beginMs, endMs })

const cases: readonly [others: readonly Period[], uncovered: number][] = [
  [[], 100],
  [[period(0, 50)], 100],
  [[period(0, 120)], 80],
  [[period(150, 300)], 50],
  [[period(0, 300)], 0],
  [[period(120, 140), period(160, 180)], 60],
  [[period(160, 180), period(120, 170)], 40],
  [[period(120, 180), period(130, 140)], 40],
  [[period(250, 300)], 100],
]
for (const [others, uncovered] of cases) {
  const covered = others.map(({ beginMs, endMs }) => `${beginMs}–${endMs}`).join(' ') || 'nothing'
  test(`${uncovered} ms of the period 100–200 are uncovered by ${covered}`, () => {
    assert.equal(uncoveredMs(period(100, 200), others), uncovered)
  })
}

test('a relay that is paused is late for streams and calls', {
  skip: process.platform !== 'linux',
}, async t => {
  const start = async (host: string, next = '') => {
    const program = relayProgram.replace(`listen(${relayPort})`, `listen(${relayPort}, '${host}')`)
    const env = { PATH: process.env['PATH'], NEXT: next }
    const started = startProgram(process.execPath, ['--eval', program], { env })
    t.after(() => started.end('SIGKILL'))
    await waitFor(`the relay at ${host}`, () => accepts(host))
    return started
  }
  const store = await start('127.0.0.2')
  await start('127.0.0.1', '127.0.0.2')
  const clients = [streamThroughRelay('127.0.0.1', 20, 500), callRelay('127.0.0.1', 4, 20, 500)]
  const beginMs = performance.now()
  store.process.kill('SIGSTOP')
  await waitFor('a pause of 700 ms', () => performance.now() - beginMs > 700)
  store.process.kill('SIGCONT')
  for (const { late } of clients) await waitFor('a late answer', () => late.length > 0)
  await Promise.all(clients.map(({ stop }) => stop()))
})

function accepts(host: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(relayPort, host)
    socket
      .on('error', () => resolve(false))
      .on('connect', () => {
        socket.destroy()
        resolve(true)
      })
  })
}
