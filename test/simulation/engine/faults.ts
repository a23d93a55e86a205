import type { Random } from './hash.ts'
import type { Network } from './network.ts'
import type { Simulation } from './simulation.ts'

/** The faults of processes and links, which all worlds have. Each one ends after its time. */
export type FaultEvent = { readonly atMs: number; readonly forMs: number } & (
  | { readonly kind: 'pause'; readonly name: string }
  | { readonly kind: 'slow process'; readonly name: string; readonly readMs: number }
  | { readonly kind: 'cut' | 'reset'; readonly pair: Pair }
  | { readonly kind: 'slow link'; readonly pair: Pair; readonly byMs: number }
  | {
      readonly kind: 'lossy link'
      readonly pair: Pair
      readonly lossShare: number
      readonly repeatShare: number
    }
)

type Pair = readonly [string, string]

export interface Places {
  /** The processes that may stand still or be slow. */
  readonly names: readonly [string, ...string[]]
  /** The links that may fail. */
  readonly links: readonly [Pair, ...Pair[]]
  /** The faults to choose from, each as often as its weight says. */
  readonly weights: Readonly<Partial<Record<FaultEvent['kind'], number>>>
  /** The share of faults that last for 10 s or more, of those that would not by chance. */
  readonly longShare?: number
}

/** Returns some of the faults, for one scenario. */
export function someFaults(random: Random, places: Places): Places {
  return { ...places, weights: random.some(places.weights), longShare: random.pick([0, 0, 0.5]) }
}

/** Returns a fault that lasts from 100 ms to 30 s. */
export function generateFault(random: Random, atMs: number, places: Places): FaultEvent {
  const { names, links, weights, longShare = 0 } = places
  const isLong = random.chance(longShare)
  const forMs = Math.round(10 ** (isLong ? 4 + 0.5 * random.next() : 2 + 2.5 * random.next()))
  const [name, pair] = [random.pick(names), random.pick(links)]
  const kind = random.weighted(weights)
  switch (kind) {
    case 'pause':
      return { atMs, forMs, kind, name }
    case 'slow process':
      return { atMs, forMs, kind, name, readMs: random.pick([0.5, 4, 12]) }
    case 'slow link':
      return { atMs, forMs, kind, pair, byMs: Math.round(10 ** (1 + 2.9 * random.next())) }
    case 'lossy link': {
      const [lossShare, repeatShare] = [random.pick([0, 0.2, 0.5]), random.pick([0, 0.2, 0.5])]
      return { atMs, forMs, kind, pair, lossShare, repeatShare }
    }
    default:
      return { atMs, forMs, kind, pair }
  }
}

export function isFault<Event extends { readonly kind: string }>(
  event: Event | FaultEvent,
): event is FaultEvent {
  return faultKinds.has(event.kind)
}

const faultKinds: ReadonlySet<string> = new Set<FaultEvent['kind']>([
  'pause',
  'slow process',
  'cut',
  'reset',
  'slow link',
  'lossy link',
])

export function describeFault(fault: FaultEvent): { readonly who: string; readonly what: string } {
  const who = 'name' in fault ? fault.name : fault.pair.join(' - ')
  const time = `for ${fault.forMs} ms`
  switch (fault.kind) {
    case 'pause':
      return { who, what: `stands still ${time}` }
    case 'slow process':
      return { who, what: `has a slow processor ${time}` }
    case 'cut':
      return { who, what: `are cut off from each other ${time}` }
    case 'reset':
      return { who, what: 'lose their connections' }
    case 'slow link':
      return { who, what: `are ${fault.byMs} ms slower ${time}` }
    case 'lossy link': {
      const [lost, twice] = [fault.lossShare, fault.repeatShare].map(share => `${Math.round(100 * share)} %`)
      return { who, what: `lose ${lost} of their messages ${time}, and get ${twice} twice` }
    }
  }
}

export function applyFault(simulation: Simulation, network: Network, fault: FaultEvent): void {
  const end = (work: () => void) => simulation.after(fault.forMs, work)
  switch (fault.kind) {
    case 'pause':
      network.pause(fault.name)
      end(() => network.resume(fault.name))
      break
    case 'slow process': {
      const process = simulation.find(fault.name)
      if (process === undefined) break
      process.clockReadMs = fault.readMs
      end(() => {
        process.clockReadMs = 0
      })
      break
    }
    case 'cut':
      network.cut(...fault.pair)
      end(() => network.heal(...fault.pair))
      break
    case 'reset':
      network.reset(...fault.pair)
      break
    case 'slow link':
    case 'lossy link': {
      const [one, other] = fault.pair
      for (const faults of [network.faults(one, other), network.faults(other, one)]) {
        const changed =
          fault.kind === 'slow link'
            ? { slowMs: fault.byMs }
            : { lossShare: fault.lossShare, repeatShare: fault.repeatShare }
        Object.assign(faults, changed)
        end(() =>
          Object.assign(
            faults,
            fault.kind === 'slow link' ? { slowMs: 0 } : { lossShare: 0, repeatShare: 0 },
          ),
        )
      }
    }
  }
}

/** Ends the faults of all processes and links. */
export function healAll(simulation: Simulation, network: Network, names: readonly string[]): void {
  network.healAll()
  for (const name of names) {
    const process = simulation.find(name)
    if (process) process.clockReadMs = 0
    network.resume(name)
  }
}
