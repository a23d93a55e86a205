import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Random } from './hash.ts'
import { Network } from './network.ts'
import { Simulation } from './simulation.ts'
import { runScenario, type ScenarioEvent, shrink, type World } from './world.ts'

describe('a simulated process', () => {
  test('has its own time, which passes only in the simulation', async () => {
    const simulation = new Simulation(1)
    const seen: number[] = []
    simulation.start('one', async ({ clock }) => {
      await pause(3_600_000)
      seen.push(clock.monotonicMs(), performance.now(), Date.now() - clock.nowMs())
    })
    const realMs = performance.now()
    await simulation.run(4_000_000)
    assert.deepEqual(seen, [3_600_000, 3_600_000, 0])
    assert.ok(performance.now() - realMs < 1_000)
  })

  test('does nothing more after a kill, and is late after a pause', async () => {
    const simulation = new Simulation(2)
    const ticks: string[] = []
    for (const name of ['killed', 'paused', 'free']) {
      simulation.start(name, () => void setInterval(() => ticks.push(`${name} ${simulation.nowMs}`), 100))
    }
    simulation.after(150, () => {
      simulation.kill('killed')
      simulation.find('paused')?.pause()
    })
    simulation.after(350, () => simulation.find('paused')?.resume())
    await simulation.run(400)
    const of = (name: string) =>
      ticks.filter(tick => tick.startsWith(name)).map(tick => Number(tick.split(' ')[1]))
    assert.deepEqual(of('killed'), [100])
    assert.deepEqual(of('free'), [100, 200, 300, 400])
    assert.deepEqual(of('paused'), [100, 350])
  })

  test('that keeps its event loop busy runs its timers late', async () => {
    const simulation = new Simulation(3)
    const seen: number[] = []
    simulation.start('slow', process => {
      process.clockReadMs = 20
      setTimeout(() => seen.push(simulation.nowMs), 5)
      performance.now()
    })
    await simulation.run(100)
    assert.deepEqual(seen, [20])
  })

  test('that is busy or stands still gets what arrives in order', async () => {
    const simulation = new Simulation(5)
    const seen: number[] = []
    simulation.start('slow', process => {
      process.clockReadMs = 7
      for (let number = 0; number < 50; number++) {
        process.after(number, () => {
          performance.now()
          seen.push(number)
        })
      }
      simulation.after(20, () => process.pause())
      simulation.after(90, () => process.resume())
    })
    await simulation.run(1_000)
    assert.deepEqual(
      seen,
      Array.from({ length: 50 }, (_, number) => number),
    )
  })

  test('that has an unhandled rejection is a violation', async () => {
    const simulation = new Simulation(4)
    simulation.start('one', async () => {
      await pause(5)
      throw new Error('unexpected')
    })
    await simulation.run(10)
    assert.equal(simulation.violation?.invariant, 'a process never crashes')
  })
})

/** A toy: processes count `add` messages over a lossy network. It fails when `open` and `fire` come after each other. */
type ToyEvent = ScenarioEvent & { readonly kind: 'open' | 'fire' | 'noise' | 'kill' | 'pause' }

const toy: World<ToyEvent> = {
  name: 'toy',
  summary: 'a server with one mistake',
  parts: {},
  defects: [],
  generate(random: Random) {
    const kinds = ['open', 'fire', 'noise', 'noise', 'kill', 'pause'] as const
    return Array.from({ length: 60 }, (_, index) => ({ atMs: index * 50, kind: random.pick(kinds) }))
  },
  describe: ({ kind }) => ({ who: 'server', what: kind }),
  open(simulation) {
    const network = new Network(simulation)
    network.faults('client', 'server').lossShare = 0.1
    let isOpen = false
    const start = () =>
      void simulation.start('server', () => {
        isOpen = false
        setInterval(() => simulation.note('server', `tick ${Math.random()} ${randomUUID()}`), 40)
      })
    start()
    return {
      apply({ kind }) {
        if (kind === 'kill') start()
        if (kind === 'pause') network.pause('server')
        if (kind === 'noise') network.resume('server')
        network.send('client', 'server', () => {
          if (kind === 'fire' && isOpen)
            simulation.fail('server', 'nothing fires while it is open', 'it fired')
          if (kind === 'open') isOpen = true
        })
      },
      heal: () => network.healAll(),
      findUnsettled: () => undefined,
      settleMs: () => 1_000,
    }
  },
}

describe('a scenario', () => {
  test('runs twice alike, to the last event', async () => {
    const events = toy.generate(new Random(7))
    const [one, other] = [await runScenario(toy, 7, events), await runScenario(toy, 7, events)]
    assert.deepEqual(one, other)
    assert.notEqual(one.digest, (await runScenario(toy, 8, events)).digest)
  })

  test('that fails shrinks to the events that are needed', async () => {
    const events = toy.generate(new Random(7))
    assert.ok((await runScenario(toy, 7, events)).violation)
    const shrunk = await shrink(toy, 7, events)
    assert.deepEqual(
      shrunk.events.map(({ kind }) => kind),
      ['open', 'fire'],
    )
    assert.equal(shrunk.result.violation?.invariant, 'nothing fires while it is open')
  })
})
