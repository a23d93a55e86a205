import { Random } from './hash.ts'
import { Simulation, type TraceLine, type Violation } from './simulation.ts'

/** One thing that happens to a world from outside: load, an edit or a fault. */
export interface ScenarioEvent {
  readonly atMs: number
  readonly kind: string
}

/**
 * A system to simulate: how scenarios for it are made, and how it is put together from the code of the
 * repository. `Parts` are the parts that a defect replaces.
 */
export interface World<Event extends ScenarioEvent = ScenarioEvent, Parts extends object = object> {
  readonly name: string
  /** What the world has and which invariants it checks, in a sentence for the help. */
  readonly summary: string
  /** Returns the events of a scenario, in the order of their times. */
  generate(random: Random): readonly Event[]
  /** Returns the event for the table: to whom it happens, and what. */
  describe(event: Event): { readonly who: string; readonly what: string }
  /** The parts of the repository, as they are. */
  readonly parts: Parts
  open(simulation: Simulation, parts: Parts): OpenedWorld<Event>
  readonly defects: readonly Defect<Parts>[]
}

export interface OpenedWorld<Event extends ScenarioEvent> {
  apply(event: Event): void
  /** Ends all faults, so that the world can settle. */
  heal(): void
  /** Returns what is not as it has to be in the end; undefined when all is. */
  findUnsettled(): string | undefined
  /** Within this time after `heal`, nothing may be left that is not as it has to be. */
  settleMs(events: readonly Event[]): number
}

/** A mistake that is planted to see whether the simulation finds it. */
export interface Defect<Parts extends object = object> {
  readonly name: string
  /** The mistake in a sentence. */
  readonly summary: string
  /** Returns the parts that have the mistake, made of the right ones. */
  plant(parts: Parts): Partial<Parts>
}

// biome-ignore lint/suspicious/noExplicitAny: worlds of different events and parts are in one list
export type AnyWorld = World<any, any>

export interface RunResult {
  readonly violation: Violation | undefined
  readonly digest: string
  readonly trace: readonly TraceLine[]
  readonly steps: number
  readonly endMs: number
}

/** The time between two looks at a world that has to settle. */
const lookMs = 250

export function generateScenario<Event extends ScenarioEvent>(
  world: Pick<World<Event, never>, 'generate' | 'name'>,
  seed: number,
): readonly Event[] {
  return world.generate(new Random(seed))
}

/** Runs a scenario: its events, the end of all faults, and the time in which the world settles. */
export async function runScenario<Event extends ScenarioEvent, Parts extends object>(
  world: World<Event, Parts>,
  seed: number,
  events: readonly Event[],
  defect?: Defect<Parts>,
): Promise<RunResult> {
  const simulation = new Simulation(seed)
  const parts = defect === undefined ? world.parts : { ...world.parts, ...defect.plant(world.parts) }
  const opened = world.open(simulation, parts)
  for (const event of events) {
    simulation.after(event.atMs, () => {
      const { who, what } = world.describe(event)
      simulation.note(who, what)
      opened.apply(event)
    })
  }
  const lastMs = events.at(-1)?.atMs ?? 0
  await simulation.run(lastMs)
  if (simulation.violation === undefined) {
    simulation.note('world', 'all faults end')
    simulation.after(0, () => opened.heal())
    const endMs = simulation.nowMs + opened.settleMs(events)
    while (simulation.violation === undefined) {
      await simulation.run(simulation.nowMs + lookMs)
      const unsettled = opened.findUnsettled()
      if (unsettled === undefined) break
      if (simulation.nowMs >= endMs)
        simulation.fail('world', 'it converges when the faults have ended', unsettled)
    }
  }
  const { violation, digest, trace, steps, nowMs } = simulation
  return { violation, digest, trace, steps, endMs: nowMs }
}

/** A failed scenario with as few events as were found to fail in the same way. */
export interface Shrunk<Event extends ScenarioEvent> {
  readonly events: readonly Event[]
  readonly result: RunResult
  readonly runs: number
}

/**
 * Removes events while the same invariant fails: halves first, then smaller parts, at last single ones (delta
 * debugging, Zeller and Hildebrandt 2002).
 */
export async function shrink<Event extends ScenarioEvent, Parts extends object>(
  world: World<Event, Parts>,
  seed: number,
  events: readonly Event[],
  { defect, maxRuns = 500 }: { readonly defect?: Defect<Parts> | undefined; readonly maxRuns?: number } = {},
): Promise<Shrunk<Event>> {
  let best = { events, result: await runScenario(world, seed, events, defect) }
  const invariant = best.result.violation?.invariant
  let runs = 1
  if (invariant === undefined) return { ...best, runs }

  async function stillFails(fewer: readonly Event[]): Promise<boolean> {
    runs += 1
    const result = await runScenario(world, seed, fewer, defect)
    if (result.violation?.invariant !== invariant) return false
    best = { events: fewer, result }
    return true
  }

  // What happened after the violation has no part in it.
  const { violation } = best.result
  await stillFails(events.filter(({ atMs }) => atMs <= (violation?.atMs ?? 0)))
  for (let parts = 2; best.events.length > 0 && runs < maxRuns; ) {
    const size = Math.ceil(best.events.length / parts)
    let isSmaller = false
    for (let from = 0; from < best.events.length && runs < maxRuns; ) {
      const fewer = best.events.toSpliced(from, size)
      if (await stillFails(fewer)) isSmaller = true
      else from += size
    }
    if (size === 1 && !isSmaller) break
    parts = isSmaller ? Math.max(2, parts - 1) : Math.min(best.events.length, parts * 2)
  }
  return { ...best, runs }
}
